//! clio-bench
