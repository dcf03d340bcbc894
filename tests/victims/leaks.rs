// Leaks known bytes at known places: "leak: NAME" ends the line of the call that allocates.

mod shop {
    use std::hint::black_box;

    pub struct Basket<T> {
        pub last: Option<T>,
    }

    impl<T: Default> Basket<T> {
        #[inline(always)]
        fn block(&self) -> Vec<u8> {
            Vec::with_capacity(1000) // leak: inlined
        }

        #[inline(never)]
        pub fn keep(&mut self) {
            std::mem::forget(black_box(self.block())); // leak: keep
            self.last = Some(T::default());
        }
    }
}

fn main() {
    let mut basket = shop::Basket::<u32> { last: None };
    for _ in 0..std::env::args().count() + 8 {
        // 9 times, which the compiler cannot know
        basket.keep(); // leak: main
    }
    println!("{}", basket.last.unwrap_or(7));
}
