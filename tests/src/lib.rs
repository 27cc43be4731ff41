//! clio-tests
