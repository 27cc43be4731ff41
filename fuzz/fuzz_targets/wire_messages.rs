#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    clio_testkit::fuzz::wire_messages(input);
});
