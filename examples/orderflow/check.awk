# What the topology makes of the orders, computed without it: awk -F, -f check.awk quakes.csv | sort
NR == 1 { next }
$12 == "" { print "dead"; next }
{
	cents = ($7 == "" ? 10 : $7) * 250
	m = substr($1, 1, 7)
	if (month[$11] != m) { month[$11] = m; spent[$11] = 0 }
	if (spent[$11] + cents > 500000) { print "refused", $11, m; next }
	spent[$11] += cents; orders[$11]++; last[$11] = m; left[$11] = spent[$11]
	if ($5 >= 6) print "job", $11, $12, cents
	else if ($5 >= 2) { normal[$11]++; worth[$11] += cents }
	k = m " " $11
	n[k]++; sum[k] += cents
	if (cents > max[k]) max[k] = cents
}
END {
	for (k in n) print "bill", k, n[k], sum[k], max[k]
	for (k in normal) print "parcels", k, int((normal[k] + 49) / 50), normal[k], worth[k]
	for (k in orders) print "account", k, last[k], left[k], orders[k]
}
