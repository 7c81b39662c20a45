//! A small assembler for BPF: instructions by name, jumps by label.
//!
//! Encodings are those of RFC 9669.

use std::collections::HashMap;

/// A register. `R10` points to the stack frame.
#[allow(missing_docs)] // their names are the standard's
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reg {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Size of a load or store.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Width {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// A 64-bit arithmetic operation.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// The condition of a jump.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum When {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    SignedGreater = 0x60,
    Less = 0xa0,
    SignedLess = 0xc0,
}

const PSEUDO_MAP_FD: u8 = 1;
const FETCH: i32 = 0x01;

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    labels: HashMap<&'static str, usize>,
    jumps: Vec<(usize, &'static str)>,
}

impl Assembler {
    fn emit(&mut self, opcode: u8, to: u8, from: u8, offset: i16, value: i32) -> &mut Self {
        let [o0, o1] = offset.to_le_bytes();
        let [v0, v1, v2, v3] = value.to_le_bytes();
        self.code.push([opcode, from << 4 | to, o0, o1, v0, v1, v2, v3]);
        self
    }

    /// `to op= from`.
    pub fn op(&mut self, op: Op, to: Reg, from: Reg) -> &mut Self {
        self.emit(0x0f | op as u8, to as u8, from as u8, 0, 0)
    }

    /// `to op= value`.
    pub fn op_value(&mut self, op: Op, to: Reg, value: i32) -> &mut Self {
        self.emit(0x07 | op as u8, to as u8, 0, 0, value)
    }

    /// Converts the low 16 or 32 bits of a register from network to host byte order, and clears the rest.
    pub fn big_endian(&mut self, reg: Reg, bits: i32) -> &mut Self {
        self.emit(0xdc, reg as u8, 0, 0, bits)
    }

    /// `to = *(from + offset)`.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) -> &mut Self {
        self.emit(0x61 | width as u8, to as u8, from as u8, offset, 0)
    }

    /// `*(to + offset) = from`.
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.emit(0x63 | width as u8, to as u8, from as u8, offset, 0)
    }

    /// `*(to + offset) = value`.
    pub fn store_value(&mut self, width: Width, to: Reg, offset: i16, value: i32) -> &mut Self {
        self.emit(0x62 | width as u8, to as u8, 0, offset, value)
    }

    /// `*(to + offset) += from`, 64 bits, atomically.
    pub fn add_atomic(&mut self, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.emit(0xdb, to as u8, from as u8, offset, 0)
    }

    /// The same, and loads the previous value into `from`.
    pub fn fetch_add(&mut self, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.emit(0xdb, to as u8, from as u8, offset, FETCH)
    }

    /// Loads a map's address into `to`.
    pub fn load_map(&mut self, to: Reg, fd: i32) -> &mut Self {
        self.emit(0x18, to as u8, PSEUDO_MAP_FD, 0, fd).emit(0, 0, 0, 0, 0)
    }

    /// Calls a kernel helper.
    pub fn call(&mut self, helper: i32) -> &mut Self {
        self.emit(0x85, 0, 0, 0, helper)
    }

    /// Jumps to `label` if `left` compares to `value` as `when` says.
    pub fn jump_value(&mut self, when: When, left: Reg, value: i32, label: &'static str) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.emit(0x05 | when as u8, left as u8, 0, 0, value)
    }

    /// Jumps to `label` if `left` compares to `right` as `when` says.
    pub fn jump(&mut self, when: When, left: Reg, right: Reg, label: &'static str) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.emit(0x0d | when as u8, left as u8, right as u8, 0, 0)
    }

    /// Jumps to `label`.
    pub fn jump_always(&mut self, label: &'static str) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.emit(0x05, 0, 0, 0, 0)
    }

    /// Defines `label` as the target of jumps.
    ///
    /// # Panics
    /// If the label already exists.
    pub fn label(&mut self, label: &'static str) -> &mut Self {
        let before = self.labels.insert(label, self.code.len());
        assert!(before.is_none(), "label `{label}` twice");
        self
    }

    /// Returns `value` to the kernel.
    pub fn exit(&mut self, value: i32) -> &mut Self {
        self.op_value(Op::Mov, Reg::R0, value).emit(0x95, 0, 0, 0, 0)
    }

    /// Returns the program with every jump resolved.
    ///
    /// # Panics
    /// If a jump's label is missing or too far away.
    pub fn finish(&mut self) -> Vec<[u8; 8]> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let distance = self.labels[label] as i64 - at as i64 - 1;
            let distance = i16::try_from(distance).expect("programs are short");
            self.code[at][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        std::mem::take(&mut self.code)
    }
}
