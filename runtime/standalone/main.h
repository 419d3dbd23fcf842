/** @file main.h */
