/** @file kernel.h */
