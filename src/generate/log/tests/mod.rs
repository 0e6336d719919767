//! Generated logs, taken apart by a few lines of their own and judged by the functions that judge real ones.

mod blocks;
