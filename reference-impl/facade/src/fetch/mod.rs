//! Fetch: sessions, rotation, one parked wait for a whole assignment.
