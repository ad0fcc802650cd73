"""Large source files for the compilers, generated: the same text every time."""

from __future__ import annotations

_OPERATIONS = (
    "a * {k} + b",
    "(a ^ b) >> {s}",
    "a - b / {k}",
    "(a << {s}) | (b & {k})",
    "a % {k} * b",
)


def c_source(functions: int) -> str:
    """C: so many functions with loops, switches, structures and tables, and a main that sums."""
    parts = ["#include <stdio.h>\n#include <string.h>\n"]
    for i in range(functions):
        operation = _OPERATIONS[i % len(_OPERATIONS)].format(k=i % 97 + 3, s=i % 7 + 1)
        table = ", ".join(str((i * 31 + j * 17) % 251) for j in range(24))
        cases = "\n".join(
            f"    case {j}: total += (unsigned)(p.x * {j + i % 5}) ^ p.y; break;" for j in range(12)
        )
        parts.append(f"""
static const unsigned char table{i}[] = {{ {table} }};
struct point{i} {{ int x; unsigned y; char name[{i % 30 + 2}]; }};
static unsigned step{i}(unsigned a, unsigned b) {{ return {operation}; }}
unsigned work{i}(unsigned n) {{
  struct point{i} p = {{ (int)n, n + {i}u, "{chr(97 + i % 26)}" }};
  unsigned total = 0;
  for (unsigned j = 0; j < sizeof table{i}; j++) {{
    total += step{i}(total + table{i}[j], p.y + j);
    switch ((p.x + (int)j) % 12) {{
{cases}
    default: total ^= strlen(p.name);
    }}
  }}
  return total;
}}""")
    calls = "\n".join(f"  total += work{i}({i}u + total % 7);" for i in range(functions))
    main = f'{calls}\n  printf("%u\\n", total);\n  return 0;\n'
    return "\n".join([*parts, f"int main(void) {{\n  unsigned total = 0;\n{main}}}\n"])


_CXX_HEAD = """\
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Node : Node<N - 1> {
  int value[N % 5 + 1]{};
  int sum() const { return value[0] + Node<N - 1>::sum() + N; }
};
template <> struct Node<0> { int sum() const { return 0; } };
"""


def _cxx_class(i: int) -> str:
    return f"""
namespace part{i} {{
struct Item {{
  std::string name;
  int weight;
  std::variant<int, std::string, double> extra;
  bool operator<(const Item &other) const {{ return weight < other.weight; }}
}};
int use(int n) {{
  std::map<Item, std::vector<std::unique_ptr<Item>>> groups;
  std::unordered_map<std::string, std::function<int(int)>> actions;
  for (int k = 0; k < n; ++k) {{
    Item key{{"n" + std::to_string(k % 9), k % 9, k}};
    groups[key].push_back(std::make_unique<Item>(Item{{"x", k, "s"}}));
    actions["a" + std::to_string(k % {i + 3})] = [k](int v) {{ return v * k + {i}; }};
  }}
  int total = Node<{i + 40}>{{}}.sum();
  for (auto &[key, list] : groups) {{
    std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) {{ return *b < *a; }});
    total += key.weight * static_cast<int>(list.size());
    total += std::visit([](const auto &v) {{ return static_cast<int>(sizeof v); }}, list[0]->extra);
  }}
  for (auto &[name, action] : actions) total += action(static_cast<int>(name.size()));
  return total;
}}
}}"""


def cxx_source(classes: int) -> str:
    """C++: instantiates much of the standard library, anew for each of so many classes."""
    parts = [_CXX_HEAD, *(_cxx_class(i) for i in range(classes))]
    calls = "\n".join(f"  total += part{i}::use({i + 20});" for i in range(classes))
    parts.append(f"int main() {{\n  int total = 0;\n{calls}\n  std::cout << total << '\\n';\n}}\n")
    return "\n".join(parts)
