//! clio-examples
