/** @file comm.h */
