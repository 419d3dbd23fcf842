/** @file reach.h */
