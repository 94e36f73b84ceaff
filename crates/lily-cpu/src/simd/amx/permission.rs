//! Whether this process may use AMX.

use std::sync::OnceLock;

/// Asks the CPU, then the system: Linux hands out the tile registers only on request.
pub(in crate::simd) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| cpu_has_it() && permitted())
}

/// AMX-TILE and AMX-INT8, with their state enabled by the system.
fn cpu_has_it() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 7 {
        return false;
    }
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    const OSXSAVE: u32 = 1 << 27;
    let features = __cpuid_count(7, 0).edx;
    if features & TILE == 0 || features & INT8 == 0 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let (low, _high): (u32, u32);
    // SAFETY: the CPU has XGETBV (OSXSAVE); it reads a register.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nomem, nostack));
    }
    const TILE_STATE: u32 = 3 << 17;
    low & TILE_STATE == TILE_STATE
}

/// `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`: for all threads of the process, also later ones.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    let result: isize;
    // SAFETY: the call changes which registers the process may use and nothing else; the kernel overwrites rcx and
    // r11.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") 158isize => result, in("rdi") 0x1023, in("rsi") 18,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}
