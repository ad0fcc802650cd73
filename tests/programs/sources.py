"""Large sources for the compilers, generated: the same text every time."""

C_OPERATIONS = (
    "a * {k} + b",
    "(a ^ b) >> {s}",
    "a - b / {k}",
    "(a << {s}) | (b & {k})",
    "a % {k} * b",
)


def c_source(functions: int) -> str:
    """A C file of so many functions with loops, switches, structures and tables; prints a sum."""
    parts = ["#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"]
    for i in range(functions):
        operation = C_OPERATIONS[i % len(C_OPERATIONS)].format(k=i % 97 + 3, s=i % 7 + 1)
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
    main = f'int main(void) {{\n  unsigned total = 0;\n{calls}\n  printf("%u\\n", total);\n  return 0;\n}}\n'
    return "\n".join([*parts, main])


CXX_HEAD = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Node : Node<N - 1> { int value[N % 5 + 1]{}; int sum() const { return value[0] + Node<N - 1>::sum() + N; } };
template <> struct Node<0> { int sum() const { return 0; } };
"""  # fmt: skip


def cxx_class(i: int) -> str:
    return f"""
namespace {{
struct Item{i} {{
  std::string name; int weight; std::variant<int, std::string, double> extra;
  bool operator<(const Item{i} &other) const {{ return weight < other.weight; }}
}};
int use{i}(int n) {{
  std::map<Item{i}, std::vector<std::unique_ptr<Item{i}>>> groups;
  std::unordered_map<std::string, std::function<int(int)>> actions;
  for (int k = 0; k < n; ++k) {{
    groups[Item{i}{{"n" + std::to_string(k % 9), k % 9, k}}].push_back(std::make_unique<Item{i}>(Item{i}{{"x", k, "s"}}));
    actions["a" + std::to_string(k % {i + 3})] = [k](int v) {{ return v * k + {i}; }};
  }}
  int total = Node<{i + 40}>{{}}.sum();
  for (auto &[key, list] : groups) {{
    std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) {{ return *b < *a; }});
    total += key.weight * static_cast<int>(list.size()) + std::visit([](const auto &v) {{ return static_cast<int>(sizeof v); }}, list.front()->extra);
  }}
  for (auto &[name, action] : actions) total += action(static_cast<int>(name.size()));
  return total;
}}
}}"""


def cxx_source(classes: int) -> str:
    """A C++ file that instantiates much of the standard library for so many classes."""
    parts = [CXX_HEAD, *(cxx_class(i) for i in range(classes))]
    calls = "\n".join(f"  total += use{i}({i + 20});" for i in range(classes))
    parts.append(f"int main() {{\n  int total = 0;\n{calls}\n  std::cout << total << '\\n';\n}}\n")
    return "\n".join(parts)
