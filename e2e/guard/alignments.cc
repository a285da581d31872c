// Blocks of an alignment that are given back with another one; with any argument, the same done right.
#include <cstdio>
#include <new>

static void *(*volatile give)(std::size_t, std::align_val_t) = ::operator new;
static void (*volatile end)(void *, std::align_val_t) = ::operator delete;
static void *(*volatile give_array)(std::size_t, std::align_val_t) = ::operator new[];
static void (*volatile end_array)(void *, std::size_t, std::align_val_t) = ::operator delete[];

int main(int count, char **)
{
	const bool right = count > 1;

	end(give(64, std::align_val_t(64)), std::align_val_t(right ? 64 : 32));
	// Both are less than every block has.
	end(give(100, std::align_val_t(8)), std::align_val_t(16));
	end_array(give_array(100, std::align_val_t(128)), 100, std::align_val_t(right ? 128 : 4096));
	std::puts("goes on");
}
