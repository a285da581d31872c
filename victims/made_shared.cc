// flags: -std=c++17 -fno-inline
// expect: live fn=main kind=new count=70
// expect: live fn=_ZSt8assumingIXquuxE kind=new count=20
// Functions of the standard library whose mangled names are hard to read, or in no mangling at all. They pass allocations
// on: what holds the blocks are the functions that call them.
#include <cstdio>
#include <memory>
#include <vector>

struct Order {
    long number, parts[6];
    Order(int number) : number(number), parts() {}
};

// Never destroyed.
static auto &orders = *new std::vector<std::shared_ptr<Order>>;
static Order *kept[20];

__attribute__((noipa)) static void keep_orders(int number)
{
    orders.push_back(std::make_shared<Order>(number));
}

// As the linker would know a function of the standard library, if it were mangled like this.
__attribute__((noipa)) Order *assume(int number) __asm__("_ZSt8assumingIXquuxE");
Order *assume(int number)
{
    return new Order(number);
}

__attribute__((noipa)) static void keep_assumed(int number)
{
    kept[number] = assume(number);
    kept[number]->number++;
}

int main()
{
    orders.reserve(50);
    for (int i = 0; i < 49; i++)
        keep_orders(i);
    for (int i = 0; i < 20; i++)
        keep_assumed(i);
    printf("%zu orders\n", orders.size());
    return 0;
}
