# perl: hashes of arrays, strings that grow, regular expressions, sorting, deep copies.
use strict; use warnings;
use Storable qw(dclone); use Digest::SHA qw(sha256_hex); use List::Util qw(sum);

my %table; my $seed = 42;
sub draw { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed; }
for (1 .. 250_000) {
    push @{ $table{"key" . draw() % 30_000} }, "value $_";
    delete $table{"key" . draw() % 30_000} if $_ % 3 == 0;
}
print scalar(keys %table), " keys, ", sum(map { scalar @$_ } values %table), " values\n";
my $text = join ";", map { "$_=" . join(",", @{ $table{$_} }) } sort keys %table;
print sha256_hex($text), "\n";
for my $round (1 .. 3) {
    my $copy = dclone(\%table);
    delete @$copy{ grep { /$round$/ } keys %$copy };
    print scalar(keys %$copy), "\n";
}
(my $changed = $text) =~ s/key(\d+)=/<$1>/g;
my $hits = () = $changed =~ /<(\d*7)>/g;
my @words = sort { $a cmp $b } split /[;,= ]+/, $text;
my %seen; $seen{$_}++ for @words;
my $string = ""; $string .= "x" x ($_ % 100) for 1 .. 40_000;
print "$hits ", length($changed), " ", scalar(@words), " ", scalar(keys %seen), " ", length($string), "\n";
