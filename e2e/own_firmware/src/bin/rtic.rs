//! Two tasks of RTIC, of which one interrupts the other, and an interrupt that interrupts both, over `embedded-alloc`.
#![no_std]
#![no_main]

#[rtic::app(device = lm3s6965, dispatchers = [SSI0, QEI0])]
mod app {
    use core::ptr::addr_of_mut;
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use embedded_alloc::TlsfHeap;
    use heapledger::chip::{Board, ChipAllocator, Config, HeapDescription, with_critical_section};
    use lm3s6965::Interrupt;
    use own_firmware::{HEAP_BYTES, end, turn};

    struct Firmware;

    /// The handler that runs.
    fn handler() -> u32 {
        match cortex_m::peripheral::SCB::vect_active() {
            cortex_m::peripheral::scb::VectActive::Interrupt { irqn } => u32::from(irqn),
            _ => 0xFF,
        }
    }

    const fn handle(dispatcher: Interrupt) -> u32 {
        0x1000 + 2 * dispatcher as u32
    }

    // SAFETY: there is one core, and the section lets nothing else run.
    unsafe impl Board for Firmware {
        const CONFIG: Config<'static> = Config {
            history: 32,
            tasks: 4,
            depth: 8,
            largest_bytes: 0xFFFE,
            heaps: &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x2001_0000 }],
            process: b"program=rtic\0build_id=rtic of the tests\0",
            ..Config::minimal(200, 512)
        };

        fn alone<T>(work: impl FnOnce() -> T) -> T {
            with_critical_section(work)
        }
        /// Each task has a handler that runs it, if no other task has its priority.
        fn task() -> Option<u32> {
            Some(0x1000 + 2 * handler())
        }
        fn is_in_interrupt() -> bool {
            handler() == Interrupt::UART0 as u32
        }
    }

    heapledger::chip_ledger!(Firmware);

    #[global_allocator]
    static HEAP: ChipAllocator<TlsfHeap, Firmware> = ChipAllocator::new(TlsfHeap::empty());

    static mut MEMORY: [u64; HEAP_BYTES / 8] = [0; HEAP_BYTES / 8];

    static TURNS: AtomicU32 = AtomicU32::new(0);

    #[shared]
    struct Shared {}

    #[local]
    struct Local {}

    #[init]
    fn init(_: init::Context) -> (Shared, Local) {
        // SAFETY: nobody else looks at it.
        unsafe { HEAP.inner().init(addr_of_mut!(MEMORY) as usize, HEAP_BYTES) };
        HEAP.books().task_begins(handle(Interrupt::SSI0), 1, "first");
        HEAP.books().task_begins(handle(Interrupt::QEI0), 2, "second");
        if first::spawn().is_err() {
            end();
        }
        (Shared {}, Local {})
    }

    #[task(priority = 1)]
    async fn first(_: first::Context) {
        for number in 0..90 {
            turn(number, 1);
            // It runs at once.
            if second::spawn(number).is_err() {
                end();
            }
        }
        end();
    }

    #[task(priority = 2)]
    async fn second(_: second::Context, number: u32) {
        turn(number + 1, 2);
        if number % 10 == 0 {
            rtic::pend(Interrupt::UART0);
        }
        turn(number + 2, 2);
    }

    /// Three of its blocks are kept.
    #[task(binds = UART0, priority = 3)]
    fn interrupts(_: interrupts::Context) {
        let number = TURNS.fetch_add(1, Relaxed);
        turn(number, 0);
    }
}
