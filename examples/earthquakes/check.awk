# What the topology makes of the file, computed without it: awk -F, -f check.awk quakes.csv | sort
function key(a, b) { return a " " b }
NR > 1 {
	cents = int($5 * 100 + ($5 < 0 ? -0.5 : 0.5))
	d = key(substr($1, 1, 10), $11)
	n[d]++; sum[d] += cents
	if (!(d in max) || $5 + 0 > max[d]) max[d] = $5 + 0
	class = int($5); if (class > $5) class--
	m = key(substr($1, 1, 7), class)
	months[m]++
	if (!(m in min) || $5 + 0 < min[m]) min[m] = $5 + 0
	if (!((m, $11) in seen)) { seen[m, $11]; networks[m]++ }
	if ($1 >= latest[$11]) { latest[$11] = $1; last[$11] = $12 " " ($5 + 0) }
	if ($5 >= 5) print "strong", $12, $5 + 0
}
END {
	for (d in n) print "daily", d, n[d], sum[d], max[d]
	for (k in last) print "latest", k, last[k]
	for (m in months) print "monthly", m, months[m], min[m], networks[m]
}
