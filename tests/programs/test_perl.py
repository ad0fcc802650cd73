"""perl: hashes, strings, regular expressions, threads that copy the interpreter, fork."""

from harness import Sides, assert_same, write_both

SCRIPT = r"""
use strict; use warnings;
use threads; use Thread::Queue; use Storable qw(freeze thaw dclone); use Encode;
use Digest::SHA qw(sha256_hex); use List::Util qw(sum shuffle reduce); use POSIX ();

my %table; my $seed = 42;
sub draw { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed; }
for (1 .. 120_000) { my $k = draw() % 30_000; push @{ $table{"key$k"} }, $_; delete $table{"key" . draw() % 30_000} if $_ % 3 == 0; }
print scalar(keys %table), " keys, ", sum(map { scalar @$_ } values %table), " values\n";
my $canon = join ";", map { "$_=" . join(",", @{ $table{$_} }) } sort keys %table;
print sha256_hex($canon), "\n";

my $copy = thaw(freeze(dclone(\%table)));
print scalar(keys %$copy), "\n";
(my $text = $canon) =~ s/key(\d+)=/<$1>/g;
my $hits = () = $text =~ /<(\d*7)>(?=\d+,)/g;
print "$hits ", length $text, "\n";
my $utf = encode("UTF-8", join "", map { chr(0x400 + $_ % 300) } 1 .. 50_000);
print sha256_hex($utf), " ", length(decode("UTF-8", $utf)), "\n";
my $string = ""; $string .= "x" x ($_ % 100) for 1 .. 20_000; print length($string), "\n";
my @sorted = sort { $a <=> $b } map { draw() % 1_000_000 } 1 .. 100_000;
print "@sorted[0 .. 9]\n";

my $queue = Thread::Queue->new(1 .. 400); $queue->end;
my @workers = map { threads->create(sub {
    my $sum = 0;
    while (defined(my $n = $queue->dequeue_nb)) { my %h = map { $_ => "v$_" x 3 } 1 .. 100 + $n; $sum += keys %h; }
    return $sum;
}) } 1 .. 4;
print sum(map { $_->join } @workers), "\n";

my $total = 0;
for my $n (1 .. 8) {
    pipe(my $in, my $out) or die; my $pid = fork // die;
    if (!$pid) { close $in; my @l = map { [ $_, "child $n" ] } 1 .. 20_000; print $out scalar(@l) * $n, "\n"; close $out; exit 0; }
    close $out; $total += <$in>; waitpid $pid, 0; die "child: $?" if $?;
}
print "$total\n";
eval { die { code => 7, list => [ 1 .. 1000 ] } }; print "$@->{code} ", scalar @{ $@->{list} }, "\n";
"""


def test_perl_script(sides: Sides) -> None:
    write_both(sides, "script.pl", SCRIPT)
    # Hash order is random by default; the script sorts, this makes its memory the same too.
    out = assert_same(sides, "/usr/bin/perl", "script.pl", environment={"PERL_HASH_SEED": "0"})
    assert out.endswith("720000\n7 1000\n")
