"""bash and the small tools around it: many short processes, each with its own first malloc."""

from harness import Sides, assert_same, run, write_both

SCRIPT = r"""
set -euo pipefail
declare -A count
words=()
for i in {1..20000}; do
  word="w$(( (i * 7919) % 1009 ))"
  words+=("$word")
  count[$word]=$(( ${count[$word]:-0} + i ))
done
for word in "${!count[@]}"; do printf '%s %d\n' "$word" "${count[$word]}"; done | sort | sed -n 1,20p
echo "${#words[@]} words, ${#count[@]} different"

text=""
for i in {1..3000}; do text+="line $i of a string that grows; "; done
echo "${#text}"
text=${text//line/LINE}
echo "${text:0:40}"
[[ $text =~ ([0-9]+)\ of ]] && echo "${BASH_REMATCH[1]}"

# Subshells, pipes, here documents, process substitution, background jobs, traps.
for i in {1..40}; do (( $(echo "$i" | sed 's/.*/&0/') == i * 10 )) || exit 1; done
diff <(seq 1 2000) <(seq 1 2000 | tac | sort -n) && echo equal
cat <<END | tr a-z A-Z
here $(printf '%s,' {a..z})
END
for i in 1 2 3 4; do ( seq 1 $((i * 1000)) | awk '{ s += $1 } END { print s }' > "job.$i" ) & done
wait
cat job.*
trap 'echo "bye from the trap"' EXIT
mapfile -t lines < <(seq 1 5000)
echo "${#lines[@]} ${lines[4999]}"
function depth() { if (( $1 > 0 )); then depth $(( $1 - 1 )); else echo "deep"; fi; }
depth 400
exec 3>&1; eval 'printf "%q\n" "a b" >&3'
"""


def test_bash_script(sides: Sides) -> None:
    write_both(sides, "script.sh", SCRIPT)
    out = assert_same(sides, "/bin/bash", "script.sh")
    assert "equal\n" in out and out.endswith("a\\ b\nbye from the trap\n")


def test_bash_reads_a_large_script(sides: Sides) -> None:
    functions = "\n".join(
        f'f{i}() {{ local a=$1; case $a in {i}) echo "{i}";; *) f{i + 1} "$a";; esac; }}'
        for i in range(2000)
    )
    write_both(sides, "large.sh", functions + "\nf0 300\nf1500 1900\n")
    assert assert_same(sides, "/bin/bash", "large.sh") == "300\n1900\n"


def test_ls(sides: Sides) -> None:
    # Both list the same folder: sizes of folders and times of files are not theirs to choose.
    folder = sides.glibc.root.parent / "many"
    folder.mkdir()
    for i in range(5000):
        (folder / f"file-{i * 7919 % 5000:05d}-{'x' * (i % 40)}").touch()
    for options in ("-1", "-C", "-la", "-laR", "-lSr", "-1v"):
        assert assert_same(sides, "/bin/ls", options, folder).count("file-") == 5000
    assert_same(
        sides, "/bin/ls", "-laR", "--color=always", "/usr/lib/git-core", "/etc/alternatives"
    )


def test_text_tools(sides: Sides) -> None:
    lines = "".join(f"{i * 48271 % 65521} name{i % 997} {i}\n" for i in range(200_000))
    write_both(sides, "table", lines)
    # A buffer of 2 MiB makes sort work through temporary files and threads.
    assert_same(sides, "/usr/bin/sort", "-k2,2", "-k1,1n", "--parallel=2", "-S2M", "table")
    awk = '{ sum[$2] += $1 } END { for (name in sum) print name, sum[name] | "sort" }'
    assert assert_same(sides, "/usr/bin/awk", awk, "table").count("\n") == 997
    assert_same(sides, "/bin/sed", "-E", "s/([0-9]+) (name[0-9]+)/\\2=\\1/", "table")
    assert_same(sides, "/bin/grep", "-nE", "^[0-9]*7 name(1|2)+ ", "table")
    for side in sides:
        run(side, "/bin/tar", "--mtime=@0", "--owner=0", "--group=0", "-cf", "t.tar", "table")
    assert_same(sides, "/bin/tar", "-xOf", "t.tar")
