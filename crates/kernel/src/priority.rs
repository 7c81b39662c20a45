//! The scheduling priority of a thread.
#![allow(unsafe_code)]

use std::io;

/// Makes the scheduler run this thread before all ordinary ones (`SCHED_FIFO`). Threads and processes that it starts do
/// not inherit this.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` in the machine's own user namespace.
pub fn run_first() -> io::Result<()> {
    // SAFETY: zeros are valid for this C structure.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: a live structure of this thread's own, which the kernel only reads.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
