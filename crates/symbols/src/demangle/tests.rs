//! What names come to look like.

use std::process::Command;

use super::*;

#[test]
fn three_manglings_and_none() {
    assert_eq!(demangle("_ZN5space3fooEibc"), "space::foo(int, bool, char)");
    assert_eq!(demangle("_ZN4core3ptr4drop17h0123456789abcdefE"), "core::ptr::drop");
    assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
    assert_eq!(demangle("malloc"), "malloc");
    assert_eq!(demangle("_Znwm"), "operator new(unsigned long)");
    assert_eq!(demangle("_Z3foov.cold"), "foo() [clone .cold]");
    assert_eq!(demangle("_Zbroken"), "_Zbroken");
}

/// Each kind of name that the demangler cannot do by itself, of which there are some in installed libraries: all of them
/// have `sr`, a member of a type that depends on template arguments.
#[test]
fn members_of_dependent_types() {
    for (raw, shown) in [
        // std::make_shared since GCC 12.
        (
            "_ZSt11make_sharedI5OrderJiEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES4_E4typeEEDpOT0_",
            "std::shared_ptr<std::enable_if<!(std::is_array<Order>::value), Order>::type> std::make_shared<Order, int>(int&&)",
        ),
        // Types of std whose arguments depend on template arguments themselves.
        (
            "_ZSt4swapI5EventENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS5_ESt18is_move_assignableIS5_EEE5valueEvE4typeERS5_SF_",
            "std::enable_if<std::__and_<std::__not_<std::__is_tuple_like<Event> >, std::is_move_constructible<Event>, std::is_move_assignable<Event> >::value, void>::type std::swap<Event>(Event&, Event&)",
        ),
        // Nested types, and what refers back into them.
        (
            "_ZN2wi3addI4wideS1_EENS_13binary_traitsIT_T0_XsrNS_10int_traitsIS3_EE14precision_typeEXsrNS5_IS4_EE14precision_typeEE11result_typeERKS3_RKS4_",
            "wi::binary_traits<wide, wide, wi::int_traits<wide>::precision_type, wi::int_traits<wide>::precision_type>::result_type wi::add<wide, wide>(wide const&, wide const&)",
        ),
        // Types in no namespace.
        (
            "_Z8multipleIlEN10if_nonpolyIT_bXsr11poly_traitsIS1_E7is_polyEE4typeES1_",
            "if_nonpoly<long, bool, poly_traits<long>::is_poly>::type multiple<long>(long)",
        ),
        // Inside each other; binutils 2.40 takes it for A<b>::t f<int>(A<b>::t).
        ("_Z1fIiEN1AIXsr1BIXsr1CIT_E1cEE1bEE1tES3_", "A<B<C<int>::c>::b>::t f<int>(int)"),
        // A member function that is a template.
        ("_Z1hIiEDTplclsr1OIT_E5twiceILi3EEEstS1_ES1_", "decltype (((O<int>::twice<3>)())+(sizeof (int))) h<int>(int)"),
        // Literals, functions, arrays and pointers to members as arguments.
        (
            "_Z2k2IcEN1AIXsr1KIL6Colour0ERFT_iPS3_EE1vEE1tES3_",
            "A<K<(Colour)0, char (&)(int, char*)>::v>::t k2<char>(char)",
        ),
        (
            "_Z2k3I1MEN1AIXplsr1KIL6Colour0EA3_T_E1vsrS2_ILS3_0EMS4_iE1vEE1tEPS4_",
            "A<(K<(Colour)0, M [3]>::v)+(K<(Colour)0, int M::*>::v)>::t k3<M>(M*)",
        ),
        // What only looks so.
        ("_ZN5users4sr1xEi", "users::sr1x(int)"),
    ] {
        assert_eq!(demangle(raw), shown, "{raw}");
    }
}

#[test]
fn letters_beyond_ascii() {
    for (raw, shown) in [
        ("_ZN1a7größe4holdEi", "a::größe::hold(int)"),
        ("_ZN1a4maß4holdEi", "a::maß::hold(int)"),
        (
            "_ZNSt6vectorI5BüroSaIS0_EE9push_backERKS0_",
            "std::vector<Büro, std::allocator<Büro> >::push_back(Büro const&)",
        ),
        // One letter is the whole name; runs of several; the same ones again.
        ("_Z2éi", "é(int)"),
        ("_ZN6日本4äüC1ERK6日本2é", "日本::äü::äü(日本 const&, é)"),
        // With a member of a type that depends on arguments.
        ("_Z3fßIiEN1AIXsr1BIT_E1bEE2äES2_", "A<B<int>::b>::ä fß<int>(int)"),
        ("_Z9unfinishé", "_Z9unfinishé"),
        ("größe", "größe"),
    ] {
        assert_eq!(demangle(raw), shown, "{raw}");
    }
    // More different runs than can be told apart.
    let many: String = (0..70).map(|number| format!("3{}a", char::from_u32(0xe0 + number).unwrap_or('é'))).collect();
    let many = format!("_ZN{many}Ev");
    assert_eq!(demangle(&many), many);
}

#[test]
fn names_that_say_that_there_is_more() {
    for raw in ["_ZSt1fIXquuxE", "_ZNKSt6vectorIXquuxE1fEv", "_ZN5Store1fIXquuxE", "_ZZ1fvENKUlvE_clEv"] {
        assert!(has_scope(raw), "{raw}");
    }
    assert!(!has_scope("_Z1fIXquuxE") && !has_scope("_ZL1fv"));
}

#[test]
fn long_names_are_cut_at_a_character() {
    let long = "é".repeat(5000);
    let shown = demangle(&long);
    assert!(shown.len() <= SHOWN_MAX + 3, "{}", shown.len());
    assert!(shown.ends_with('…'));
}

#[test]
fn a_name_that_would_explode_is_cut() {
    // Each step doubles the text: substitutions refer to the pair before.
    let mut name = String::from("_Z1f1XIiiE");
    for step in 0..40 {
        let id = if step == 0 { "S_".to_owned() } else { format!("S{}_", base36(step - 1)) };
        name.push_str(&format!("1XI{id}{id}E"));
    }
    let shown = demangle(&name);
    assert!(shown.len() <= SHOWN_MAX + 3);
}

fn base36(n: usize) -> String {
    char::from_digit(n as u32 % 36, 36).map(|c| c.to_ascii_uppercase().to_string()).unwrap_or_default()
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for piece in ["P", "F", "N", "I", "St", "X", "dl", "K", "A_", "Dp", "J", "sr", "srSt1aI", "XsrN", "Xsr1xIX", "tl"] {
        let name = format!("_Z1f{}", piece.repeat(MANGLED_MAX / (2 * piece.len())));
        let _ = demangle(&name);
        let rust = format!("_R{}", piece.repeat(MANGLED_MAX / (2 * piece.len())));
        let _ = demangle(&rust);
    }
    let _ = demangle(&format!("_RNv{}", "Nv".repeat(4000)));
    let _ = demangle(&format!("_RMC0{}", "R".repeat(8000)));
}

/// Names that the linker knows in the installed libraries, and what binutils makes of them: whatever c++filt can make
/// readable is readable here too. Run it with `cargo test -p heapledger-symbols -- --ignored installed`.
#[test]
#[ignore = "reads all installed libraries; needs nm and c++filt"]
fn names_of_installed_libraries() {
    let libraries = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").expect("libraries");
    let libraries = libraries.filter_map(|item| Some(item.ok()?.path()).filter(|path| path.is_file()));
    let libraries = libraries.filter(|path| path.to_string_lossy().contains(".so"));
    let mut names = std::collections::BTreeSet::new();
    for library in libraries {
        let listed = Command::new("nm").arg("-D").arg(&library).output().expect("nm");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let last =
            |line: &str| line.split_whitespace().last().map(|name| name.split('@').next().unwrap_or("").to_owned());
        names.extend(listed.lines().filter_map(last).filter(|name| name.starts_with("_Z")));
    }
    let file = std::env::temp_dir().join(format!("heapledger-names-{}", std::process::id()));
    std::fs::write(&file, names.iter().map(|name| format!("{name}\n")).collect::<String>()).expect("names");
    let asked = std::fs::File::open(&file).expect("names");
    let answer = Command::new("c++filt").stdin(asked).output().expect("c++filt").stdout;
    let _ = std::fs::remove_file(&file);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(answer.lines().count(), names.len());
    let worse: Vec<&String> = names
        .iter()
        .zip(answer.lines())
        .filter(|(raw, other)| raw != other && demangle(raw) == **raw)
        .map(|both| both.0)
        .collect();
    println!("{} names, of which c++filt alone knows {}", names.len(), worse.len());
    assert!(names.len() > 10_000, "too few to tell");
    assert_eq!(worse, Vec::<&String>::new());
}
