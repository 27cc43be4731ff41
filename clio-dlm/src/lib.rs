//! clio-dlm
