//! The kernel's type information: where the fields of its structs lie, and the
//! ids of what programs attach to. Format: `Documentation/bpf/btf.rst`.
//!
//! One pass looks for a handful of names among 100,000 types. The general
//! parsers build all of them in memory, which takes 20 to 90 ms: more than all
//! the rest of loading the probe.

use std::collections::HashMap;

/// Only the kinds that are looked at, or that have an unusual length.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FWD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
    pub(super) const LAST: u32 = ENUM64;
}

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;
const TYPE_LEN: usize = 12;
const MEMBER_LEN: usize = 12;
/// Anonymous structs inside of one another; the kernel's own checks allow 32 levels.
const MAX_DEPTH: u32 = 32;

/// A kind of named type that can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Named {
    /// A struct.
    Struct,
    /// A typedef: `btf_trace_*` stands for a tracepoint.
    Typedef,
    /// A function: `bpf_iter_*` stands for an iterator.
    Function,
}

impl Named {
    fn of(kind: u32) -> Option<Named> {
        match kind {
            kind::STRUCT => Some(Named::Struct),
            kind::TYPEDEF => Some(Named::Typedef),
            kind::FUNC => Some(Named::Function),
            _ => None,
        }
    }

    fn kind(self) -> u32 {
        match self {
            Named::Struct => kind::STRUCT,
            Named::Typedef => kind::TYPEDEF,
            Named::Function => kind::FUNC,
        }
    }
}

/// Type information in memory, with the ids of the names that were asked for.
#[derive(Debug)]
pub(super) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type begins in `types`. Id 0 is `void` and has no record.
    begins: Vec<u32>,
    ids: HashMap<(Named, &'static str), u32>,
}

impl<'a> Btf<'a> {
    /// Walks over `data` once and remembers the ids of `wanted`.
    pub(super) fn scan(
        data: &'a [u8],
        wanted: &[(Named, &'static str)],
    ) -> Result<Btf<'a>, Malformed> {
        let header = |at| word(data, at).map(|word| word as usize);
        if half(data, 0)? != MAGIC {
            return Err(Malformed("magic number"));
        }
        let base = header(4)?;
        let section = |from: usize, len: usize| {
            let begin = base.checked_add(from)?;
            data.get(begin..begin.checked_add(len)?)
        };
        let mut btf = Btf {
            types: section(header(8)?, header(12)?).ok_or(Malformed("length of types"))?,
            strings: section(header(16)?, header(20)?).ok_or(Malformed("length of strings"))?,
            begins: vec![0],
            ids: HashMap::new(),
        };
        let mut at = 0;
        while at < btf.types.len() {
            let id = u32::try_from(btf.begins.len()).map_err(|_| Malformed("number of types"))?;
            btf.begins
                .push(u32::try_from(at).map_err(|_| Malformed("length of types"))?);
            let record = Record::at(btf.types, at)?;
            if let Some(named) = Named::of(record.kind) {
                let name = btf.string(record.name)?;
                for (kind, text) in wanted {
                    if *kind == named && name == text.as_bytes() {
                        btf.ids.entry((named, text)).or_insert(id);
                    }
                }
            }
            at = at
                .checked_add(record.len()?)
                .ok_or(Malformed("length of a type"))?;
        }
        Ok(btf)
    }

    /// The id of one of the wanted names, if it is there.
    pub(super) fn id(&self, named: Named, name: &'static str) -> Option<u32> {
        self.ids.get(&(named, name)).copied()
    }

    /// Byte offset of a member of a struct, also when it lies in an anonymous
    /// struct or union inside of it; `None` when there is no such member.
    pub(super) fn offset(&self, of: &'static str, member: &str) -> Result<Option<u32>, Malformed> {
        match self.id(Named::Struct, of) {
            Some(id) => self.member(id, member, 0),
            None => Ok(None),
        }
    }

    fn member(&self, id: u32, wanted: &str, depth: u32) -> Result<Option<u32>, Malformed> {
        let (at, record) = self.record(id)?;
        if !matches!(record.kind, kind::STRUCT | kind::UNION) || depth > MAX_DEPTH {
            return Ok(None);
        }
        for index in 0..record.count {
            let member = at + TYPE_LEN + index as usize * MEMBER_LEN;
            let name = self.string(word(self.types, member)?)?;
            let bits = word(self.types, member + 8)?;
            // With the flag, the upper byte is the width of a bit field.
            let bits = if record.flag { bits & 0xff_ffff } else { bits };
            if name == wanted.as_bytes() {
                // A bit field that does not begin at a byte cannot be loaded.
                return Ok((bits % 8 == 0).then_some(bits / 8));
            }
            if name.is_empty()
                && let Some(inner) =
                    self.member(word(self.types, member + 4)?, wanted, depth + 1)?
            {
                return Ok(inner.checked_add(bits / 8));
            }
        }
        Ok(None)
    }

    /// How many arguments a tracepoint hands over; `None` when there is no such one.
    pub(super) fn arguments(&self, tracepoint: &'static str) -> Result<Option<u32>, Malformed> {
        let Some(mut id) = self.id(Named::Typedef, tracepoint) else {
            return Ok(None);
        };
        // typedef -> pointer -> prototype.
        for _ in 0..MAX_DEPTH {
            let (_, record) = self.record(id)?;
            match record.kind {
                // The first parameter is the tracepoint's private data.
                kind::FUNC_PROTO => return Ok(Some(record.count.saturating_sub(1))),
                kind::TYPEDEF | kind::PTR => id = record.size_or_type,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A copy in which all but the wanted names are gone, while these keep their
    /// ids: all that aya looks up, and parsed in a millisecond.
    pub(super) fn reduced(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut types = vec![[0, kind::FWD << 24, 0]; self.begins.len().saturating_sub(1)];
        for ((named, name), id) in &self.ids {
            // A struct would need its members; nobody looks one up by its id.
            if *named == Named::Struct {
                continue;
            }
            let place = usize::try_from(*id).ok().and_then(|id| id.checked_sub(1));
            if let Some(record) = place.and_then(|place| types.get_mut(place)) {
                let name_at = u32::try_from(strings.len()).unwrap_or(0);
                *record = [name_at, named.kind() << 24, 0];
                strings.extend_from_slice(name.as_bytes());
                strings.push(0);
            }
        }
        let types: Vec<u8> = types
            .iter()
            .flatten()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0);
        let mut out = Vec::with_capacity(HEADER_LEN + types.len() + strings.len());
        out.extend_from_slice(&MAGIC.to_ne_bytes());
        out.extend_from_slice(&[1, 0]);
        for word in [
            u32::try_from(HEADER_LEN).unwrap_or(0),
            0,
            len(&types),
            len(&types),
            len(&strings),
        ] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(&types);
        out.extend_from_slice(&strings);
        out
    }

    fn record(&self, id: u32) -> Result<(usize, Record), Malformed> {
        let at = usize::try_from(id)
            .ok()
            .filter(|id| *id != 0)
            .and_then(|id| self.begins.get(id))
            .ok_or(Malformed("type id"))?;
        let at = *at as usize;
        Ok((at, Record::at(self.types, at)?))
    }

    fn string(&self, at: u32) -> Result<&'a [u8], Malformed> {
        let rest = self
            .strings
            .get(at as usize..)
            .ok_or(Malformed("name offset"))?;
        rest.split(|byte| *byte == 0)
            .next()
            .ok_or(Malformed("name"))
    }
}

/// The fixed part of a type.
#[derive(Clone, Copy, Debug)]
struct Record {
    name: u32,
    kind: u32,
    /// Members, parameters, values: depends on the kind.
    count: u32,
    flag: bool,
    size_or_type: u32,
}

impl Record {
    fn at(types: &[u8], at: usize) -> Result<Record, Malformed> {
        let info = word(types, at + 4)?;
        Ok(Record {
            name: word(types, at)?,
            kind: info >> 24 & 0x1f,
            count: info & 0xffff,
            flag: info >> 31 != 0,
            size_or_type: word(types, at + 8)?,
        })
    }

    fn len(self) -> Result<usize, Malformed> {
        let count = self.count as usize;
        let more = match self.kind {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => count * MEMBER_LEN,
            kind::ENUM | kind::FUNC_PROTO => count * 8,
            // A kind of a later kernel has a length that is not known here.
            0 | kind::LAST.. => return Err(Malformed("kind of a type")),
            _ => 0,
        };
        Ok(TYPE_LEN + more)
    }
}

fn word(data: &[u8], at: usize) -> Result<u32, Malformed> {
    data.get(at..)
        .and_then(|rest| rest.first_chunk())
        .map(|bytes| u32::from_ne_bytes(*bytes))
        .ok_or(Malformed("end of data"))
}

fn half(data: &[u8], at: usize) -> Result<u16, Malformed> {
    data.get(at..)
        .and_then(|rest| rest.first_chunk())
        .map(|bytes| u16::from_ne_bytes(*bytes))
        .ok_or(Malformed("end of data"))
}

/// The kernel's type information is not what its documentation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected {0} in the kernel's type information")]
pub(super) struct Malformed(pub(super) &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [(Named, &str); 3] = [
        (Named::Struct, "task"),
        (Named::Typedef, "btf_trace_exit"),
        (Named::Function, "bpf_iter_task"),
    ];

    /// Writes type information by hand.
    #[derive(Default)]
    struct Writer {
        types: Vec<u8>,
        strings: Vec<u8>,
    }

    impl Writer {
        fn name(&mut self, name: &str) -> u32 {
            if self.strings.is_empty() {
                self.strings.push(0);
            }
            if name.is_empty() {
                return 0;
            }
            let at = self.strings.len();
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            u32::try_from(at).unwrap()
        }

        fn words(&mut self, words: &[u32]) {
            for word in words {
                self.types.extend_from_slice(&word.to_ne_bytes());
            }
        }

        fn finish(self) -> Vec<u8> {
            let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_ne_bytes();
            let mut out = MAGIC.to_ne_bytes().to_vec();
            out.extend_from_slice(&[1, 0]);
            out.extend_from_slice(&24u32.to_ne_bytes());
            out.extend_from_slice(&0u32.to_ne_bytes());
            out.extend_from_slice(&len(&self.types));
            out.extend_from_slice(&len(&self.types));
            out.extend_from_slice(&len(&self.strings));
            out.extend_from_slice(&self.types);
            out.extend_from_slice(&self.strings);
            out
        }
    }

    /// `struct task { int a; union { struct { int b; int c; }; }; int bit : 3; }`, a
    /// tracepoint with two arguments, an iterator.
    fn example() -> Vec<u8> {
        let mut writer = Writer::default();
        let int = writer.name("int");
        writer.words(&[int, kind::INT << 24, 4, 32]); // 1
        let (b, c) = (writer.name("b"), writer.name("c"));
        writer.words(&[0, kind::STRUCT << 24 | 2, 8, b, 1, 0, c, 1, 32]); // 2
        writer.words(&[0, kind::UNION << 24 | 1, 8, 0, 2, 0]); // 3
        let (task, a, bit) = (writer.name("task"), writer.name("a"), writer.name("bit"));
        writer.words(&[task, 1 << 31 | kind::STRUCT << 24 | 3, 16]); // 4
        writer.words(&[a, 1, 0, 0, 3, 32, bit, 1, 3 << 24 | 0x63]);
        writer.words(&[0, kind::FUNC_PROTO << 24 | 3, 0, 0, 1, 0, 1, 0, 1]); // 5
        writer.words(&[0, kind::PTR << 24, 5]); // 6
        let exit = writer.name("btf_trace_exit");
        writer.words(&[exit, kind::TYPEDEF << 24, 6]); // 7
        let iter = writer.name("bpf_iter_task");
        writer.words(&[iter, kind::FUNC << 24, 5]); // 8
        writer.finish()
    }

    #[test]
    fn members_are_found_also_in_anonymous_structs() {
        let data = example();
        let btf = Btf::scan(&data, &WANTED).unwrap();
        assert_eq!(btf.offset("task", "a"), Ok(Some(0)));
        assert_eq!(btf.offset("task", "c"), Ok(Some(8)));
        assert_eq!(btf.offset("task", "nothing"), Ok(None));
    }

    #[test]
    fn a_bit_field_has_no_offset() {
        let data = example();
        let btf = Btf::scan(&data, &WANTED).unwrap();
        assert_eq!(btf.offset("task", "bit"), Ok(None));
    }

    #[test]
    fn arguments_of_a_tracepoint_are_counted() {
        let data = example();
        let btf = Btf::scan(&data, &WANTED).unwrap();
        assert_eq!(btf.arguments("btf_trace_exit"), Ok(Some(2)));
    }

    #[test]
    fn the_reduced_copy_keeps_the_ids() {
        let data = example();
        let btf = Btf::scan(&data, &WANTED).unwrap();
        let reduced = btf.reduced();
        let again = Btf::scan(&reduced, &WANTED).unwrap();
        for name in [
            (Named::Typedef, "btf_trace_exit"),
            (Named::Function, "bpf_iter_task"),
        ] {
            assert_eq!(again.id(name.0, name.1), btf.id(name.0, name.1));
            assert!(btf.id(name.0, name.1).is_some());
        }
        aya::Btf::parse(&reduced, aya::Endianness::default()).unwrap();
    }

    #[test]
    fn cut_or_changed_data_is_an_error_and_no_panic() {
        let data = example();
        for end in 0..data.len() {
            assert!(Btf::scan(&data[..end], &WANTED).is_err(), "{end}");
        }
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut data = data.clone();
                data[at] = value;
                if let Ok(btf) = Btf::scan(&data, &WANTED) {
                    let _ = btf.offset("task", "c");
                    let _ = btf.arguments("btf_trace_exit");
                    let _ = btf.reduced();
                }
            }
        }
    }
}
