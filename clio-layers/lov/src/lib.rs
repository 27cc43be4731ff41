//! clio-lov
