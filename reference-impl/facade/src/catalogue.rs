//! The topic cache: name, id, width and floor of each topic, and automatic creation.
