//! The kernels in x86-64 assembly: SSE2 for short copies, AVX2 (SSE2 where there is none) for longer ones.
//!
//! A range is covered by pieces that may overlap each other: the first and the last vector are copied wherever they
//! lie, and the loop between them writes aligned vectors. So there is no byte-wise tail, and misalignment costs a
//! few cycles, whatever the length. A byte in an overlap is copied twice; the later copy counts.

use std::arch::asm;

/// Longest copy done by a few SSE2 moves without a loop.
const SHORT_BYTES: usize = 128;

/// Copies from page memory to a place of the caller's own.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub(super) unsafe fn copy_out(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the same contract.
    unsafe { copy(to, from, len) }
}

/// Copies from a place of the caller's own to page memory.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub(super) unsafe fn copy_in(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the same contract.
    unsafe { copy(to, from, len) }
}

/// Copies between two places in page memory.
///
/// # Safety
/// Both sides are mapped for `len` bytes and do not overlap.
#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the contract is the same for all; `len` is in the range that each asks for; AVX2 only where it exists.
    unsafe {
        if len <= SHORT_BYTES {
            copy_short(to, from, len)
        } else if !is_x86_feature_detected!("avx2") {
            copy_sse2(to, from, len)
        } else if chases_itself(to, from) {
            copy_avx2_backwards(to, from, len)
        } else {
            copy_avx2(to, from, len)
        }
    }
}

/// Whether a forward loop would load from addresses whose low 12 bits equal those of its own latest stores: the CPU
/// then takes the load to depend on the store and waits. Backwards, the loads run away from the stores.
#[inline]
fn chases_itself(to: *mut u8, from: *const u8) -> bool {
    (1..512).contains(&((to as usize).wrapping_sub(from as usize) & 4095))
}

/// As [`copy_in`], past the cache.
///
/// # Safety
/// As for [`copy`].
pub(super) unsafe fn copy_in_nt(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the same contract.
    unsafe { copy_nt(to, from, len) }
}

/// As [`copy`], past the cache.
///
/// # Safety
/// As for [`copy`].
pub(super) unsafe fn copy_nt(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the same contract; the AVX2 kernel gets more than SHORT_BYTES, and only where AVX2 exists.
    unsafe {
        if len > SHORT_BYTES && is_x86_feature_detected!("avx2") {
            copy_nt_avx2(to, from, len)
        } else {
            copy(to, from, len)
        }
    }
}

/// Sets bytes of page memory.
///
/// # Safety
/// `to` is mapped and writable for `len` bytes.
#[inline]
pub(super) unsafe fn fill(to: *mut u8, value: u8, len: usize) {
    // SAFETY: the contract is the same; `len` is in the range that each asks for; AVX2 only where it exists.
    unsafe {
        if len <= SHORT_BYTES || !is_x86_feature_detected!("avx2") {
            fill_string(to, value, len)
        } else {
            fill_avx2(to, value, len)
        }
    }
}

/// Two overlapping moves of `$reg`-sized pieces: the first and the last.
macro_rules! ends {
    ($to:ident, $from:ident, $len:ident, $mov:literal, $a:literal, $b:literal, $size:literal, $(out($clobber:tt) _),+) => {
        asm!(
            concat!($mov, " ", $a, ", [{from}]"),
            concat!($mov, " ", $b, ", [{from} + {len} - ", $size, "]"),
            concat!($mov, " [{to}], ", $a),
            concat!($mov, " [{to} + {len} - ", $size, "], ", $b),
            to = in(reg) $to, from = in(reg) $from, len = in(reg) $len,
            $(out($clobber) _,)+
            options(nostack, preserves_flags)
        )
    };
}

/// Up to [`SHORT_BYTES`].
///
/// # Safety
/// As for [`copy`], with `len <= SHORT_BYTES`.
#[inline]
unsafe fn copy_short(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: each arm touches only bytes `0..len` of both sides, as its range shows; both are mapped by contract.
    unsafe {
        match len {
            0 => {}
            1 => asm!("mov {b}, [{from}]", "mov [{to}], {b}", to = in(reg) to, from = in(reg) from,
                b = out(reg_byte) _, options(nostack, preserves_flags)),
            2..4 => ends!(to, from, len, "mov", "ax", "dx", "2", out("eax") _, out("edx") _),
            4..8 => ends!(to, from, len, "mov", "eax", "edx", "4", out("eax") _, out("edx") _),
            8..16 => ends!(to, from, len, "mov", "rax", "rdx", "8", out("rax") _, out("rdx") _),
            16..=32 => ends!(to, from, len, "movdqu", "xmm0", "xmm1", "16", out("xmm0") _, out("xmm1") _),
            33..=64 => copy_64(to, from, len),
            _ => {
                copy_64(to, from, 64);
                copy_64(to.add(len - 64), from.add(len - 64), 64);
            }
        }
    }
}

/// 32 to 64 bytes.
///
/// # Safety
/// As for [`copy`], with `32 <= len <= 64`.
#[inline]
unsafe fn copy_64(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: accesses the first and the last 32 bytes of both sides, which are mapped by contract.
    unsafe {
        asm!(
            "movdqu xmm0, [{from}]",
            "movdqu xmm1, [{from} + 16]",
            "movdqu xmm2, [{from} + {len} - 32]",
            "movdqu xmm3, [{from} + {len} - 16]",
            "movdqu [{to}], xmm0",
            "movdqu [{to} + 16], xmm1",
            "movdqu [{to} + {len} - 32], xmm2",
            "movdqu [{to} + {len} - 16], xmm3",
            to = in(reg) to, from = in(reg) from, len = in(reg) len,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            options(nostack, preserves_flags)
        )
    }
}

/// More than [`SHORT_BYTES`], without AVX2.
///
/// # Safety
/// As for [`copy`], with `len >= 64`.
pub(super) unsafe fn copy_sse2(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the loop runs while more than 64 bytes are left; then the last 64 bytes of both sides are copied.
    unsafe {
        asm!(
            "jmp 3f",
            ".p2align 5",
            "2:",
            "movdqu xmm0, [{from}]",
            "movdqu xmm1, [{from} + 16]",
            "movdqu xmm2, [{from} + 32]",
            "movdqu xmm3, [{from} + 48]",
            "movdqu [{to}], xmm0",
            "movdqu [{to} + 16], xmm1",
            "movdqu [{to} + 32], xmm2",
            "movdqu [{to} + 48], xmm3",
            "add {from}, 64",
            "add {to}, 64",
            "sub {len}, 64",
            "3:",
            "cmp {len}, 64",
            "ja 2b",
            to = inout(reg) to => _, from = inout(reg) from => _, len = inout(reg) len => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            options(nostack)
        );
        copy_64(to.add(len - 64), from.add(len - 64), 64);
    }
}

/// The loop of an AVX2 copy with the given store instruction: the first 32 bytes anywhere, aligned stores of 128
/// bytes while more than 128 are left, the last 128 bytes anywhere.
macro_rules! forwards {
    ($to:ident, $from:ident, $len:ident, $store:literal, $fence:literal) => {
        asm!(
            // The last 128 bytes are read first, so that they can be written last from registers.
            "vmovdqu ymm4, [{from} + {len} - 128]",
            "vmovdqu ymm5, [{from} + {len} - 96]",
            "vmovdqu ymm6, [{from} + {len} - 64]",
            "vmovdqu ymm7, [{from} + {len} - 32]",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu [{to}], ymm0",
            // `end` is the destination's last 128 bytes; `from` becomes the distance from `to`.
            "lea {end}, [{to} + {len} - 128]",
            "sub {from}, {to}",
            "add {to}, 32",
            "and {to}, -32",
            "cmp {to}, {end}",
            "jae 3f",
            ".p2align 5",
            "2:",
            "vmovdqu ymm0, [{to} + {from}]",
            "vmovdqu ymm1, [{to} + {from} + 32]",
            "vmovdqu ymm2, [{to} + {from} + 64]",
            "vmovdqu ymm3, [{to} + {from} + 96]",
            concat!($store, " [{to}], ymm0"),
            concat!($store, " [{to} + 32], ymm1"),
            concat!($store, " [{to} + 64], ymm2"),
            concat!($store, " [{to} + 96], ymm3"),
            "sub {to}, -128",
            "cmp {to}, {end}",
            "jb 2b",
            "3:",
            $fence,
            "vmovdqu [{end}], ymm4",
            "vmovdqu [{end} + 32], ymm5",
            "vmovdqu [{end} + 64], ymm6",
            "vmovdqu [{end} + 96], ymm7",
            "vzeroupper",
            to = inout(reg) $to => _, from = inout(reg) $from => _, len = in(reg) $len, end = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            options(nostack)
        )
    };
}

/// More than [`SHORT_BYTES`].
///
/// # Safety
/// As for [`copy`], with `len > SHORT_BYTES`; the CPU has AVX2.
unsafe fn copy_avx2(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the loop writes 128 bytes only where `to < end`, that is, more than 128 bytes are left.
    unsafe { forwards!(to, from, len, "vmovdqa", "") }
}

/// More than [`SHORT_BYTES`], past the cache. The fence orders the stores before what this thread does next: they
/// are weakly ordered, and a release store alone would not hold them back.
///
/// # Safety
/// As for [`copy_avx2`].
unsafe fn copy_nt_avx2(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: as in `copy_avx2`.
    unsafe { forwards!(to, from, len, "vmovntdq", "sfence") }
}

/// More than [`SHORT_BYTES`], from the end to the start.
///
/// # Safety
/// As for [`copy_avx2`].
unsafe fn copy_avx2_backwards(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the loop writes the 128 bytes below `end` only where `end > to + 128`; then the first 128 are written.
    unsafe {
        asm!(
            "vmovdqu ymm4, [{from}]",
            "vmovdqu ymm5, [{from} + 32]",
            "vmovdqu ymm6, [{from} + 64]",
            "vmovdqu ymm7, [{from} + 96]",
            "vmovdqu ymm0, [{from} + {len} - 32]",
            "vmovdqu [{to} + {len} - 32], ymm0",
            "lea {end}, [{to} + {len} - 1]",
            "and {end}, -32",
            "sub {from}, {to}",
            "lea {len}, [{to} + 128]",
            "cmp {end}, {len}",
            "jbe 3f",
            ".p2align 5",
            "2:",
            "vmovdqu ymm0, [{end} + {from} - 32]",
            "vmovdqu ymm1, [{end} + {from} - 64]",
            "vmovdqu ymm2, [{end} + {from} - 96]",
            "vmovdqu ymm3, [{end} + {from} - 128]",
            "vmovdqa [{end} - 32], ymm0",
            "vmovdqa [{end} - 64], ymm1",
            "vmovdqa [{end} - 96], ymm2",
            "vmovdqa [{end} - 128], ymm3",
            "add {end}, -128",
            "cmp {end}, {len}",
            "ja 2b",
            "3:",
            "vmovdqu [{to}], ymm4",
            "vmovdqu [{to} + 32], ymm5",
            "vmovdqu [{to} + 64], ymm6",
            "vmovdqu [{to} + 96], ymm7",
            "vzeroupper",
            to = in(reg) to, from = inout(reg) from => _, len = inout(reg) len => _, end = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            options(nostack)
        )
    }
}

/// Any length, by the string instruction.
///
/// # Safety
/// As for [`fill`].
unsafe fn fill_string(to: *mut u8, value: u8, len: usize) {
    // SAFETY: writes `len` bytes from `to` upwards (the ABI keeps the direction flag clear).
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, inout("rcx") len => _, in("al") value,
            options(nostack, preserves_flags));
    }
}

/// More than [`SHORT_BYTES`].
///
/// # Safety
/// As for [`fill`], with `len > SHORT_BYTES`; the CPU has AVX2.
unsafe fn fill_avx2(to: *mut u8, value: u8, len: usize) {
    // SAFETY: as in `copy_avx2`: `end` is the last 128 bytes, and the loop writes 128 bytes only below it.
    unsafe {
        asm!(
            "vmovd xmm0, {value:e}",
            "vpbroadcastb ymm0, xmm0",
            "vmovdqu [{to}], ymm0",
            "lea {end}, [{to} + {len} - 128]",
            "add {to}, 32",
            "and {to}, -32",
            "cmp {to}, {end}",
            "jae 3f",
            ".p2align 5",
            "2:",
            "vmovdqa [{to}], ymm0",
            "vmovdqa [{to} + 32], ymm0",
            "vmovdqa [{to} + 64], ymm0",
            "vmovdqa [{to} + 96], ymm0",
            "sub {to}, -128",
            "cmp {to}, {end}",
            "jb 2b",
            "3:",
            "vmovdqu [{end}], ymm0",
            "vmovdqu [{end} + 32], ymm0",
            "vmovdqu [{end} + 64], ymm0",
            "vmovdqu [{end} + 96], ymm0",
            "vzeroupper",
            to = inout(reg) to => _, len = in(reg) len, value = in(reg) u32::from(value), end = out(reg) _,
            out("xmm0") _,
            options(nostack)
        )
    }
}
