/** @file nccl.h */
