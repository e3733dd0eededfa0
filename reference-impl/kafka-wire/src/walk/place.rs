//! Where a visited value stands, what it holds, and what the fields beside it say. Borrows the
//! frame; allocates nothing.

use std::ops::Range;

use super::layout;
use crate::schema::{Field, Kind};

/// One value of a chosen role.
#[derive(Clone, Debug)]
pub struct Value<'a> {
    /// Its field in the schema.
    pub field: &'static Field,
    /// Where the whole value stands in the body, its length in front included.
    pub span: Range<usize>,
    /// Where its content stands: `span` without the length. Empty for null.
    pub content: Range<usize>,
    /// What it holds.
    pub datum: Datum<'a>,
}

/// What a visited field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum<'a> {
    /// Null.
    Null,
    /// A string.
    Text(&'a str),
    /// Bytes or records.
    Bytes(&'a [u8]),
    /// An integer of any width, or a boolean.
    Int(i64),
    /// A uuid.
    Uuid([u8; 16]),
}

/// What the field says that decides what kind of name a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider<'a> {
    /// A number, such as a resource type.
    Int(i64),
    /// A text, such as a protocol type; valid UTF-8 once the walk has ended well.
    Text(&'a [u8]),
    /// Null.
    Null,
}

/// A structure that the walk is inside of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'s> {
    pub(crate) parent: Option<&'s Scope<'s>>,
    pub(crate) fields: &'static [Field],
    /// Where its first field stands in the body.
    pub(crate) start: usize,
}

/// Where a visited value stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) version: i16,
    pub(crate) flexible: bool,
    pub(crate) scope: &'a Scope<'a>,
}

impl<'a> Place<'a> {
    /// The body that is walked; the ranges of [`Value`] index it.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The version of the message.
    pub fn version(&self) -> i16 {
        self.version
    }

    /// Whether lengths are compact in this version.
    pub fn flexible(&self) -> bool {
        self.flexible
    }

    /// What the field that decides `value`'s kind says; `None` when the schema names no such field
    /// or this version does not have it (then the request, or the API itself, decides).
    ///
    /// Costs one step per field in front of the decider; a test holds the schema to deciders that
    /// have no array in front of them, so that a hostile frame cannot make the look-up long.
    pub fn decider(&self, value: &Value<'_>) -> Option<Decider<'a>> {
        self.sibling(value.field.decided_by?)
    }

    /// The number or text in the field called `name`, beside the value or in a structure around it;
    /// `None` when this version has no such field.
    pub fn sibling(&self, name: &str) -> Option<Decider<'a>> {
        let mut scope = Some(self.scope);
        while let Some(here) = scope {
            let position = here.fields.iter().position(|field| {
                field.name == name
                    && field.versions.contains(self.version)
                    && field.tag_in(self.version).is_none()
                    && !field.array
                    && !matches!(field.kind, Kind::Struct(_))
            });
            if let Some(position) = position {
                let (before, rest) = here.fields.split_at(position);
                return layout::decider(self, here.start, before, &rest[0]);
            }
            scope = here.parent;
        }
        None
    }
}
