//! What names come to look like: each of a real program, as demanglers and debug information have it.

use super::brief;

fn check(table: &[(&str, &str)]) {
    for (name, short) in table {
        assert_eq!(brief(name), *short, "{name}");
        // What is short is not made shorter: names may be shortened twice on their way.
        assert_eq!(brief(short), *short, "{short}, again");
    }
}

#[test]
fn functions_of_c() {
    check(&[
        ("main", "main"),
        ("", ""),
        ("grow.isra.0", "grow"),
        ("store_add.constprop.0.cold", "store_add"),
        ("do_page_fault.part.12", "do_page_fault"),
        ("crc.lto_priv.3", "crc"),
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("libc.so.6+0x2a", "libc.so.6+0x2a"),
        ("sync.(*Pool).Get", "sync.(*Pool).Get"),
    ]);
}

#[test]
fn containers_of_libstdcxx() {
    check(&[
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector<…>::push_back"),
        (
            "void std::vector<Order, std::allocator<Order> >::_M_realloc_insert<Order const&>(__gnu_cxx::__normal_iterator<Order*, std::vector<Order, std::allocator<Order> > >, Order const&)",
            "std::vector<…>::_M_realloc_insert<…>",
        ),
        (
            "std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::vector<std::pair<int, long>, std::allocator<std::pair<int, long> > >, std::less<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >, std::allocator<std::pair<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const, std::vector<std::pair<int, long>, std::allocator<std::pair<int, long> > > > > >::operator[](std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >&&)",
            "std::map<…>::operator[]",
        ),
        (
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
            "std::string::_M_create",
        ),
        (
            "std::__cxx11::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> >::reserve(unsigned long)",
            "std::basic_string<…>::reserve",
        ),
        (
            "std::shared_ptr<std::enable_if<!(std::is_array<Order>::value), Order>::type> std::make_shared<Order, int>(int&&)",
            "std::make_shared<…>",
        ),
        ("std::__1::vector<int, std::__1::allocator<int> >::reserve(unsigned long)", "std::vector<…>::reserve"),
        (
            "std::_Function_handler<v8::internal::TNode<v8::internal::UintPtrT> (), v8::Builder::Length(int)::{lambda()#1}>::_M_invoke(std::_Any_data const&)",
            "std::_Function_handler<…>::_M_invoke",
        ),
        ("allocate<std::__cxx11::basic_string<char> >", "allocate<…>"),
        ("std::iter_swap<(anonymous namespace)::Row*>((anonymous namespace)::Row*)", "std::iter_swap<…>"),
    ]);
}

#[test]
fn templates_that_hold_more_than_types() {
    check(&[
        ("void f<char*>(char*, std::map<int, int>)", "f<…>"),
        ("A<(B)1>::f() [clone .isra.0]", "A<…>::f"),
        ("A<decltype(x->y)>::g", "A<…>::g"),
        ("decltype (((O<int>::twice<3>)())+(sizeof (int))) h<int>(int)", "h<…>"),
        ("decltype(auto) visit<Reader>(Reader&&)", "visit<…>"),
        ("A<(K<(Colour)0, M [3]>::v)+(K<(Colour)0, int M::*>::v)>::t k3<M>(M*)", "k3<…>"),
        ("std::enable_if<(sizeof (int))<(8), int>::type small<int>(int)", "small<…>"),
        ("Order&& forward<Order, (5>3)>(int)", "forward<…>"),
        ("Table<&Row::operator< >::find(int)", "Table<…>::find"),
        (
            "std::function<void (std::unique_ptr<A> (*)(int), A const&)>::operator()(A const&) const",
            "std::function<…>::operator()",
        ),
        ("größe<int>(int)", "größe<…>"),
        ("broken<(", "broken<("),
    ]);
}

#[test]
fn operators() {
    check(&[
        ("operator new(unsigned long)", "operator new"),
        ("operator new[](unsigned long, std::nothrow_t const&)", "operator new[]"),
        ("operator delete[](void*)", "operator delete[]"),
        ("A::operator()(int) const", "A::operator()"),
        ("operator<<(std::ostream&, A<int> const&)", "operator<<"),
        ("bool operator< <int>(A<int> const&)", "operator<"),
        ("bool operator<<int>(A<int> const&)", "operator<"),
        (
            "std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
            "std::operator<<",
        ),
        ("auto operator<=>(A const&, A const&)", "operator<=>"),
        ("A::operator->() const", "A::operator->"),
        ("A::operator[](int) &&", "A::operator[]"),
        ("Row::operator bool() const", "Row::operator bool"),
        ("Row::operator unsigned long() const", "Row::operator unsigned long"),
        ("Row::operator std::vector<int, std::allocator<int> >() const", "Row::operator std::vector<…>"),
        ("operator\"\" _kib(unsigned long long)", "operator\"\" _kib"),
        ("my_operator(int)", "my_operator"),
        ("operator_of(int)", "operator_of"),
    ]);
}

#[test]
fn functions_in_functions_and_without_names() {
    check(&[
        ("f(int)::{lambda(char)#1}::operator()(char) const", "f::{lambda#1}::operator()"),
        (
            "auto main::{lambda(auto:1)#1}::operator()<std::vector<int, std::allocator<int> > >(std::vector<int, std::allocator<int> >) const",
            "main::{lambda#1}::operator()",
        ),
        (
            "Store::add(int) const::{lambda(std::pair<int, int> const&)#2}::operator()(std::pair<int, int> const&) const",
            "Store::add::{lambda#2}::operator()",
        ),
        ("main()::<lambda(int)>::operator()(int) const", "main::<lambda>::operator()"),
        ("a::(anonymous namespace)::b(int)", "a::(anonymous namespace)::b"),
        ("void (anonymous namespace)::fill<int>(int)", "(anonymous namespace)::fill<…>"),
        ("f(int)::Local::run(char)", "f::Local::run"),
        ("{lambda(int)#1}", "{lambda#1}"),
        (
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
            "std::thread::_State_impl<…>::_M_run",
        ),
    ]);
}

#[test]
fn pointers_to_functions_and_what_compilers_add() {
    check(&[
        ("void (*get(int))(char)", "get"),
        ("void (*Table::find<int>(int) const)(char, int)", "Table::find<…>"),
        ("void* (*)(char) find<int>(int)", "find<…>"),
        ("int (Table::*member(int))(char)", "member"),
        ("void (*)(char)", "void (*)(char)"),
        ("int (*(*twice(int))(char))(long)", "twice"),
        ("std::set_new_handler(void (*)())", "std::set_new_handler"),
        ("(anonymous namespace)::key_init()", "(anonymous namespace)::key_init"),
        ("std::locale::name[abi:cxx11]() const", "std::locale::name"),
        ("AfterColour[abi:cxx11]", "AfterColour"),
        ("foo() [clone .cold]", "foo"),
        ("a::b(int) [clone .isra.0] [clone .part.1]", "a::b"),
        ("non-virtual thunk to Widget::paint(int)", "non-virtual thunk to Widget::paint"),
        ("guard variable for Store::get()::instance", "guard variable for Store::get::instance"),
        ("f(int, ...)", "f"),
        ("std::vector<int>::reserve(unsigned long) (callers guessed)", "std::vector<…>::reserve (callers guessed)"),
    ]);
}

#[test]
fn functions_of_python() {
    check(&[("<module>", "<module>"), ("Shop.<locals>.<lambda>", "Shop.<locals>.<lambda>"), ("f<module>", "f<…>")]);
}

#[test]
fn functions_of_rust() {
    check(&[
        ("<alloc::vec::Vec<u8> as core::clone::Clone>::clone", "<Vec<…> as Clone>::clone"),
        ("<shop::Order as core::fmt::Display>::fmt", "<Order as Display>::fmt"),
        ("<T as core::convert::TryInto<U>>::try_into", "<T as TryInto<…>>::try_into"),
        ("<&mut dyn core::fmt::Write as core::fmt::Write>::write_str", "<&mut dyn Write as Write>::write_str"),
        ("<[T] as alloc::slice::Concat<T>>::concat", "<[T] as Concat<…>>::concat"),
        (
            "<cc::utilities::OnceLock<T> as core::clone::Clone>::clone::{{closure}}",
            "<OnceLock<…> as Clone>::clone::{{closure}}",
        ),
        ("alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::raw_vec::RawVec<…>::grow_one"),
        ("<alloc::raw_vec::RawVec<u8>>::grow_one", "alloc::raw_vec::RawVec<…>::grow_one"),
        ("<[u8]>::to_vec", "<[u8]>::to_vec"),
        ("core::ptr::drop_in_place::<alloc::string::String>", "core::ptr::drop_in_place<…>"),
        (
            "core::ptr::drop_in_place<alloc::boxed::Box<dyn core::ops::function::FnMut<()>+Output = ()>>",
            "core::ptr::drop_in_place<…>",
        ),
        ("alloc::slice::<impl [T]>::join", "alloc::slice::<impl [T]>::join"),
        (
            "std::ffi::os_str::<impl core::convert::AsRef<std::ffi::os_str::OsStr> for str>::as_ref",
            "std::ffi::os_str::<impl AsRef<…> for str>::as_ref",
        ),
        (
            "<shop::make::{closure#0} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
            "<make::{closure#0} as FnOnce<…>>::call_once::{shim:vtable#0}",
        ),
        (
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        ),
        ("shop::cart::add::h0123456789abcdef", "shop::cart::add"),
        ("shop::cart::add::{{closure}}", "shop::cart::add::{{closure}}"),
        ("__rustc::__rust_alloc", "__rustc::__rust_alloc"),
    ]);
}

#[test]
fn code_that_engines_make() {
    check(&[
        ("JS:~grow /srv/(new) app.js:12:15", "JS:~grow /srv/(new) app.js:12:15"),
        (
            "InterpretedFunction:<anonymous> node:internal/fs:1:1",
            "InterpretedFunction:<anonymous> node:internal/fs:1:1",
        ),
        ("py::read<1>:/srv/app.py", "py::read<1>:/srv/app.py"),
        ("void java.util.HashMap.resize(int)", "java.util.HashMap.resize"),
        ("java.lang.String.<init>", "java.lang.String.<init>"),
    ]);
}
