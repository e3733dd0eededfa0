//! Walks a body with an editor and notes what is to be replaced, with the counts and sizes that
//! follow from it. Touches no byte of the body.

use std::ops::Range;

use super::edit::{self, Edit, Editor, Misfit};
use crate::schema::RoleSet;
use crate::walk::{MAX_DEPTH, Place, Value, Visitor};

/// Bytes `start..end` of the body become bytes `from..to` of [`Patches::inserted`]. Frames are at
/// most 2^31 bytes, and what is inserted is held to the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Patch {
    /// By how many bytes the body grows.
    pub(super) fn growth(&self) -> i64 {
        i64::from(self.to) - i64::from(self.from) - (i64::from(self.end) - i64::from(self.start))
    }
}

/// Everything that is to be replaced, ascending and without overlap.
#[derive(Debug, Default)]
pub(super) struct Patches {
    pub(super) list: Vec<Patch>,
    pub(super) inserted: Vec<u8>,
}

/// Why a walk with an editor stops.
pub(super) enum Stop<R> {
    Refused(R),
    Misfit(&'static str, Misfit),
}

/// What the walk is inside of.
#[derive(Clone, Copy)]
enum Open {
    Array {
        count_at: (u32, u32),
        count: u32,
        dropped: u32,
    },
    Element {
        start: u32,
        patches: usize,
        inserted: usize,
        dropped: bool,
    },
    Tag {
        size_at: (u32, u32),
        size: u32,
        patches: usize,
    },
}

pub(super) struct Plan<'e, E> {
    editor: &'e mut E,
    flexible: bool,
    patches: Patches,
    /// At most an array, an element and a tag per level of the schema.
    open: Vec<Open>,
    /// How many elements around the current position are dropped.
    dropping: u32,
}

impl<'e, E: Editor> Plan<'e, E> {
    pub(super) fn new(editor: &'e mut E, flexible: bool) -> Self {
        let patches = Patches::default();
        let open = Vec::with_capacity(3 * MAX_DEPTH);
        Plan {
            editor,
            flexible,
            patches,
            open,
            dropping: 0,
        }
    }

    /// What was noted, once the walk has ended well.
    pub(super) fn patches(self) -> Patches {
        let mut patches = self.patches;
        // Counts and sizes are known behind what they stand in front of.
        patches.list.sort_unstable_by_key(|patch| patch.start);
        patches
    }

    fn drop_element(&mut self) -> Result<(), Misfit> {
        let innermost = self.open.iter_mut().rev().find_map(|open| match open {
            Open::Element { dropped, .. } => Some(dropped),
            _ => None,
        });
        *innermost.ok_or(Misfit::NoElement)? = true;
        self.dropping += 1;
        Ok(())
    }

    /// Replaces `at` by what was inserted since `from`.
    fn patch(&mut self, at: (u32, u32), from: usize) {
        let to = self.patches.inserted.len();
        self.patches.list.push(Patch {
            start: at.0,
            end: at.1,
            from: cut(from),
            to: cut(to),
        });
    }
}

/// Positions of a frame fit 32 bits; [`Patches::apply`] refuses what has grown beyond.
fn cut(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn cut_range(range: &Range<usize>) -> (u32, u32) {
    (cut(range.start), cut(range.end))
}

impl<E: Editor> Visitor for Plan<'_, E> {
    type Stop = Stop<E::Refusal>;

    #[inline]
    fn roles(&self) -> RoleSet {
        self.editor.roles()
    }

    fn value(&mut self, place: &Place<'_>, value: &Value<'_>) -> Result<(), Self::Stop> {
        if self.dropping > 0 {
            return Ok(());
        }
        let edit = self.editor.edit(place, value).map_err(Stop::Refused)?;
        let from = self.patches.inserted.len();
        let outcome = match edit {
            Edit::Keep => return Ok(()),
            Edit::DropElement => self.drop_element(),
            edit => edit::put(&mut self.patches.inserted, place, value, &edit).map(|()| {
                if self.patches.inserted[from..] == place.body()[value.span.clone()] {
                    self.patches.inserted.truncate(from);
                } else {
                    self.patch(cut_range(&value.span), from);
                }
            }),
        };
        outcome.map_err(|misfit| Stop::Misfit(value.field.name, misfit))
    }

    fn array_start(&mut self, count_at: Range<usize>, count: u32) {
        self.open.push(Open::Array {
            count_at: cut_range(&count_at),
            count,
            dropped: 0,
        });
    }

    fn element_start(&mut self, at: usize) {
        self.open.push(Open::Element {
            start: cut(at),
            patches: self.patches.list.len(),
            inserted: self.patches.inserted.len(),
            dropped: false,
        });
    }

    fn element_end(&mut self, at: usize) {
        let Some(Open::Element {
            start,
            patches,
            inserted,
            dropped: true,
        }) = self.open.pop()
        else {
            return;
        };
        self.dropping -= 1;
        self.patches.list.truncate(patches);
        self.patches.inserted.truncate(inserted);
        self.patch((start, cut(at)), inserted);
        if let Some(Open::Array { dropped, .. }) = self.open.last_mut() {
            *dropped += 1;
        }
    }

    fn array_end(&mut self) {
        let Some(Open::Array {
            count_at,
            count,
            dropped,
        }) = self.open.pop()
        else {
            return;
        };
        if dropped > 0 {
            let from = self.patches.inserted.len();
            edit::put_count(&mut self.patches.inserted, self.flexible, count - dropped);
            self.patch(count_at, from);
        }
    }

    fn tag_start(&mut self, size_at: Range<usize>, size: u32) {
        let patches = self.patches.list.len();
        self.open.push(Open::Tag {
            size_at: cut_range(&size_at),
            size,
            patches,
        });
    }

    fn tag_end(&mut self) {
        let Some(Open::Tag {
            size_at,
            size,
            patches,
        }) = self.open.pop()
        else {
            return;
        };
        let growth: i64 = self.patches.list[patches..].iter().map(Patch::growth).sum();
        if growth != 0 {
            let from = self.patches.inserted.len();
            let size = (i64::from(size) + growth).clamp(0, i64::from(u32::MAX)) as u32;
            edit::put_varint(&mut self.patches.inserted, size);
            self.patch(size_at, from);
        }
    }
}
