//! clio-io-loop
