//! clio-testkit
