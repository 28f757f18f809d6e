//! As much of BTF as it takes to look at structs and map definitions of the object.
//! Format: <https://docs.kernel.org/bpf/btf.html>.

use std::collections::BTreeMap;

/// One type.
#[derive(Debug, Default)]
pub struct Type {
    pub name: String,
    kind: u32,
    /// Size in bytes, or the id of another type.
    pub size_or_type: u32,
    /// Members, or variables of a section: name, type id, offset in bytes.
    pub members: Vec<(String, u32, u32)>,
    /// Number of elements of an array.
    elements: u32,
    /// Element type of an array.
    element: u32,
}

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const CONST: u32 = 10;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// All types of an object; the index is the id.
pub struct Btf(Vec<Type>);

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn text(bytes: &[u8], at: u32) -> String {
    let tail = &bytes[at as usize..];
    let end = tail.iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8(tail[..end].to_vec()).unwrap()
}

/// The bytes of a section of a 64-bit ELF object.
fn section<'a>(elf: &'a [u8], expected: &str) -> &'a [u8] {
    let long = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap()) as usize;
    let short = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()));
    let header = |index: usize| long(0x28) + index * short(0x3a);
    let names = header(short(0x3e));
    let names = &elf[long(names + 0x18)..];
    let found = (0..short(0x3c)).map(header).find(|at| text(names, word(elf, *at)) == expected);
    let at = found.unwrap_or_else(|| panic!("the object has no section {expected}"));
    &elf[long(at + 0x18)..][..long(at + 0x20)]
}

impl Btf {
    pub fn of(elf: &[u8]) -> Self {
        let btf = section(elf, ".BTF");
        let header = word(btf, 4) as usize;
        let types = &btf[header + word(btf, 8) as usize..][..word(btf, 12) as usize];
        let strings = &btf[header + word(btf, 16) as usize..][..word(btf, 20) as usize];
        let (mut all, mut at) = (vec![Type::default()], 0);
        while at < types.len() {
            let (parsed, next) = parse(types, strings, at);
            all.push(parsed);
            at = next;
        }
        Self(all)
    }

    /// The struct of a name: its size, and its members with their offsets in bytes.
    pub fn layout(&self, name: &str) -> (usize, BTreeMap<String, usize>) {
        let found = self.0.iter().find(|one| one.kind == STRUCT && one.name == name);
        let found = found.unwrap_or_else(|| panic!("the object describes no struct {name}"));
        let members =
            found.members.iter().map(|(name, _, offset)| (name.clone(), *offset as usize));
        (found.size_or_type as usize, members.collect())
    }

    /// The maps, by name: what each definition says.
    pub fn maps(&self) -> BTreeMap<String, BTreeMap<String, u32>> {
        let section = self.0.iter().find(|one| one.kind == DATASEC && one.name == ".maps").unwrap();
        let map = |id: u32| {
            let variable = &self.0[id as usize];
            let definition = &self.0[self.plain(variable.size_or_type) as usize];
            (variable.name.clone(), self.definition(definition))
        };
        section.members.iter().map(|(_, id, _)| map(*id)).collect()
    }

    /// Numbers stand as lengths of arrays, keys and values as types.
    fn definition(&self, map: &Type) -> BTreeMap<String, u32> {
        let mut numbers = BTreeMap::new();
        for (name, id, _) in &map.members {
            let pointer = &self.0[*id as usize];
            let target = &self.0[pointer.size_or_type as usize];
            match name.as_str() {
                "key" | "value" => {
                    numbers.insert(format!("{name}_size"), self.size(pointer.size_or_type))
                }
                "values" => None,
                _ => numbers.insert(name.clone(), target.elements),
            };
        }
        numbers
    }

    fn plain(&self, id: u32) -> u32 {
        let one = &self.0[id as usize];
        if (TYPEDEF..=CONST + 1).contains(&one.kind) { self.plain(one.size_or_type) } else { id }
    }

    fn size(&self, id: u32) -> u32 {
        let one = &self.0[self.plain(id) as usize];
        match one.kind {
            ARRAY => one.elements * self.size(one.element),
            PTR => 8,
            _ => one.size_or_type,
        }
    }
}

/// The type at an offset, and the offset of the next.
fn parse(types: &[u8], strings: &[u8], at: usize) -> (Type, usize) {
    let info = word(types, at + 4);
    let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
    let mut one = Type {
        name: text(strings, word(types, at)),
        kind,
        size_or_type: word(types, at + 8),
        ..Type::default()
    };
    let rest = at + 12;
    let entries = |bytes: usize| (0..count).map(move |n| rest + n * bytes);
    let extra = match kind {
        STRUCT | UNION => {
            let member =
                |at| (text(strings, word(types, at)), word(types, at + 4), word(types, at + 8) / 8);
            one.members = entries(12).map(member).collect();
            count * 12
        }
        DATASEC => {
            one.members = entries(12)
                .map(|at| (String::new(), word(types, at), word(types, at + 4)))
                .collect();
            count * 12
        }
        ARRAY => {
            one.element = word(types, rest);
            one.elements = word(types, rest + 8);
            12
        }
        ENUM | FUNC_PROTO => count * 8,
        ENUM64 => count * 12,
        INT | VAR | DECL_TAG => 4,
        _ => 0,
    };
    (one, rest + extra)
}
