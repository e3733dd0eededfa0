//! Interprets the schema over a body; `walk`, `splice` and `names` are visitors of it. Allocates
//! nothing, and recurses as deep as the schema, never as the bytes.

use std::ops::Range;

use super::layout::{bytes_length, number, present, string_length};
use super::place::{Datum, Place, Scope, Value};
use super::{Limits, Summary, Trail, VisitError, WalkError};
use crate::cursor::{Cursor, Malformed, ascending, clamp, truncated};
use crate::schema::{Field, Kind, Message, RoleSet};

/// Receives what a walk meets. All methods but [`value`](Visitor::value) are for visitors that
/// rewrite: they say where counts, elements and sizes of tagged fields stand. Positions index the
/// body.
pub trait Visitor {
    /// Why the visitor ends the walk.
    type Stop;

    /// The roles whose values are handed over.
    fn roles(&self) -> RoleSet;

    /// One value of a wanted role.
    ///
    /// # Errors
    ///
    /// The visitor's reason to stop.
    fn value(&mut self, place: &Place<'_>, value: &Value<'_>) -> Result<(), Self::Stop>;

    /// An array begins: where its count stands, and what it says.
    #[inline]
    fn array_start(&mut self, count_at: Range<usize>, count: u32) {
        let _ = (count_at, count);
    }

    /// An element of the innermost array begins.
    #[inline]
    fn element_start(&mut self, at: usize) {
        let _ = at;
    }

    /// It ends.
    #[inline]
    fn element_end(&mut self, at: usize) {
        let _ = at;
    }

    /// The innermost array ends.
    #[inline]
    fn array_end(&mut self) {}

    /// A tagged field that the schema knows begins: where its size stands, and what it says.
    #[inline]
    fn tag_start(&mut self, size_at: Range<usize>, size: u32) {
        let _ = (size_at, size);
    }

    /// It ends.
    #[inline]
    fn tag_end(&mut self) {}
}

/// Wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVisitor;

/// Why the engine stops.
#[derive(Debug)]
pub enum Halt<S> {
    /// The bytes are malformed.
    Malformed(Malformed),
    /// The visitor stopped.
    Stopped(S),
}

impl<S> From<Malformed> for Halt<S> {
    #[inline]
    fn from(what: Malformed) -> Self {
        Halt::Malformed(what)
    }
}

/// What may follow the last field.
pub(super) enum End {
    /// Nothing.
    Exact,
    /// Anything.
    Open,
}

struct Walker<'a, 'v, V> {
    cursor: Cursor<'a>,
    version: i16,
    flexible: bool,
    max_elements: u32,
    elements: u32,
    trail: Trail,
    visitor: &'v mut V,
}

pub(super) fn run<V: Visitor>(
    message: &'static Message,
    version: i16,
    body: &[u8],
    start: usize,
    limits: &Limits,
    visitor: &mut V,
    end: End,
) -> Result<Summary, VisitError<V::Stop>> {
    let mut walker = Walker {
        cursor: Cursor::at(body, start),
        version,
        flexible: message.flexible.contains(version),
        max_elements: limits.max_elements,
        elements: 0,
        trail: Trail::default(),
        visitor,
    };
    let outcome = walker
        .structure(None, message.fields)
        .and_then(|()| match end {
            End::Exact if clamp(walker.cursor.remaining()) > limits.max_trailing_bytes => {
                Err(Malformed::Trailing(clamp(walker.cursor.remaining())).into())
            }
            _ => Ok(()),
        });
    match outcome {
        Ok(()) => Ok(Summary {
            elements: walker.elements,
            trailing_bytes: clamp(walker.cursor.remaining()),
        }),
        Err(Halt::Stopped(stop)) => Err(VisitError::Stopped(stop)),
        Err(Halt::Malformed(what)) => {
            let at = walker.cursor.position();
            Err(WalkError::Malformed {
                message,
                version,
                at,
                trail: walker.trail,
                what,
            }
            .into())
        }
    }
}

impl<'a, V: Visitor> Walker<'a, '_, V> {
    fn structure(
        &mut self,
        parent: Option<&Scope<'_>>,
        fields: &'static [Field],
    ) -> Result<(), Halt<V::Stop>> {
        let scope = Scope {
            parent,
            fields,
            start: self.cursor.position(),
        };
        // Fields of fixed width that nobody wants are stepped over together.
        let mut run = 0;
        let mut run_from = 0;
        for (index, field) in fields.iter().enumerate() {
            if !field.versions.contains(self.version) {
                continue;
            }
            if field.width > 0 && !self.visitor.roles().contains(field.role) {
                run += usize::from(field.width);
                continue;
            }
            if field.tag_in(self.version).is_some() {
                continue;
            }
            if self.cursor.take(run).is_err() {
                return Err(self.cut(fields, run_from).into());
            }
            run = 0;
            run_from = index + 1;
            if let Err(halt) = self.field(field, &scope) {
                self.trail.push(index);
                return Err(halt);
            }
        }
        if self.cursor.take(run).is_err() {
            return Err(self.cut(fields, run_from).into());
        }
        if self.flexible {
            self.tags(&scope)
        } else {
            Ok(())
        }
    }

    /// Finds the field of fixed width that the bytes end in, in the run that starts at the cursor
    /// and at position `from` of `fields`.
    #[cold]
    fn cut(&mut self, fields: &[Field], from: usize) -> Malformed {
        for (position, field) in fields.iter().enumerate().skip(from) {
            if !field.versions.contains(self.version) {
                continue;
            }
            if let Err(what) = self.cursor.take(usize::from(field.width)) {
                self.trail.push(position);
                return what;
            }
        }
        // The caller has seen the run not to fit.
        Malformed::Trailing(0)
    }

    #[inline]
    fn field(&mut self, field: &'static Field, scope: &Scope<'_>) -> Result<(), Halt<V::Stop>> {
        let nullable = field.nullable.contains(self.version);
        if field.array {
            return self.array(field, scope, nullable);
        }
        self.single(field, scope, nullable)
    }

    #[inline]
    fn single(
        &mut self,
        field: &'static Field,
        scope: &Scope<'_>,
        nullable: bool,
    ) -> Result<(), Halt<V::Stop>> {
        let start = self.cursor.position();
        match field.kind {
            Kind::Struct(nested) => {
                if nullable && !present(&mut self.cursor)? {
                    return Ok(());
                }
                self.structure(Some(scope), nested.fields)
            }
            Kind::String => {
                let length = string_length(&mut self.cursor, self.flexible)?;
                let Some(length) = length else {
                    return self.null(field, scope, start, nullable);
                };
                let content = self.cursor.position();
                let text = std::str::from_utf8(self.cursor.take(length)?);
                let text = text.map_err(|_| Malformed::NotUtf8)?;
                self.value(field, scope, start, content, Datum::Text(text))
            }
            Kind::Bytes | Kind::Records => {
                let length = bytes_length(&mut self.cursor, self.flexible)?;
                let Some(length) = length else {
                    return self.null(field, scope, start, nullable);
                };
                let content = self.cursor.position();
                let bytes = self.cursor.take(length)?;
                self.value(field, scope, start, content, Datum::Bytes(bytes))
            }
            kind => {
                // Every other kind has a fixed width.
                let bytes = self.cursor.take(kind.fixed_bytes().unwrap_or(0))?;
                if self.visitor.roles().contains(field.role) {
                    return self.value(field, scope, start, start, number(bytes, kind));
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn null(
        &mut self,
        field: &'static Field,
        scope: &Scope<'_>,
        start: usize,
        nullable: bool,
    ) -> Result<(), Halt<V::Stop>> {
        if !nullable {
            return Err(Malformed::Null.into());
        }
        let end = self.cursor.position();
        self.value(field, scope, start, end, Datum::Null)
    }

    #[inline]
    fn value(
        &mut self,
        field: &'static Field,
        scope: &Scope<'_>,
        start: usize,
        content: usize,
        datum: Datum<'a>,
    ) -> Result<(), Halt<V::Stop>> {
        if !self.visitor.roles().contains(field.role) {
            return Ok(());
        }
        let end = self.cursor.position();
        let body = self.cursor.bytes();
        let place = Place {
            body,
            version: self.version,
            flexible: self.flexible,
            scope,
        };
        let value = Value {
            field,
            span: start..end,
            content: content..end,
            datum,
        };
        self.visitor.value(&place, &value).map_err(Halt::Stopped)
    }

    fn array(
        &mut self,
        field: &'static Field,
        scope: &Scope<'_>,
        nullable: bool,
    ) -> Result<(), Halt<V::Stop>> {
        let start = self.cursor.position();
        let Some(count) = bytes_length(&mut self.cursor, self.flexible)? else {
            return if nullable {
                Ok(())
            } else {
                Err(Malformed::Null.into())
            };
        };
        let count_at = start..self.cursor.position();
        if let Some(width) = field.kind.fixed_bytes()
            && !self.visitor.roles().contains(field.role)
        {
            self.cursor.take(count.saturating_mul(width))?;
            return Ok(());
        }
        // No element takes less than one byte, so a count above what is left cannot be true.
        let left = self.cursor.remaining();
        if count > left {
            return Err(truncated(count, left).into());
        }
        // A count comes from 32 bits.
        let count = count as u32;
        if field.kind.fixed_bytes().is_none() {
            self.count_elements(count)?;
        }
        self.visitor.array_start(count_at, count);
        for _ in 0..count {
            self.visitor.element_start(self.cursor.position());
            self.single(field, scope, false)?;
            self.visitor.element_end(self.cursor.position());
        }
        self.visitor.array_end();
        Ok(())
    }

    #[inline]
    fn count_elements(&mut self, count: u32) -> Result<(), Malformed> {
        match self.elements.checked_add(count) {
            Some(elements) if elements <= self.max_elements => {
                self.elements = elements;
                Ok(())
            }
            _ => Err(Malformed::TooManyElements(self.max_elements)),
        }
    }

    #[inline]
    fn tags(&mut self, scope: &Scope<'_>) -> Result<(), Halt<V::Stop>> {
        match self.cursor.varint()? {
            0 => Ok(()),
            count => self.some_tags(scope, count),
        }
    }

    fn some_tags(&mut self, scope: &Scope<'_>, count: u32) -> Result<(), Halt<V::Stop>> {
        let mut previous = None;
        for _ in 0..count {
            let tag = self.cursor.varint()?;
            ascending(previous, tag)?;
            previous = Some(tag);
            let size_at = self.cursor.position();
            let size = self.cursor.varint()?;
            let content = self.cursor.position();
            let left = self.cursor.remaining();
            if size as usize > left {
                return Err(truncated(size as usize, left).into());
            }
            let known = |field: &Field| field.tag.is_some_and(|(known, _)| known == tag);
            let Some(position) = scope.fields.iter().position(known) else {
                self.count_elements(1)?;
                self.cursor.take(size as usize)?;
                continue;
            };
            let field = &scope.fields[position];
            if field.tag_in(self.version).is_none() || !field.versions.contains(self.version) {
                return Err(Malformed::TagVersion(tag).into());
            }
            self.visitor.tag_start(size_at..content, size);
            if let Err(halt) = self.field(field, scope) {
                self.trail.push(position);
                return Err(halt);
            }
            // Both ends are in a frame of at most 2^31 bytes.
            let actual = (self.cursor.position() - content) as u32;
            if actual != size {
                self.trail.push(position);
                return Err(Malformed::TagSize {
                    declared: size,
                    actual,
                }
                .into());
            }
            self.visitor.tag_end();
        }
        Ok(())
    }
}
