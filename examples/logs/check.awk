# What the topology makes of the log, computed without it: awk -F, -f check.awk quakes.csv | sort
# Hundredths of a second since 1970, of 2016/01/01 02:00:39.95.
function at(s,   y, m) {
	y = substr(s, 1, 4) + 0; m = substr(s, 6, 2) + 0
	if (m <= 2) { y--; m += 12 }
	return (365 * y + int(y / 4) - int(y / 100) + int(y / 400) + int((153 * m - 457) / 5) + substr(s, 9, 2) - 719469) * 8640000 \
		+ (substr(s, 12, 2) * 3600 + substr(s, 15, 2) * 60) * 100 + int(substr(s, 18, 5) * 100 + 0.5)
}
function swarm(k) { print "swarm", k, sprintf("%.0f", began[k]), lines[k], worst[k] }
NR == 1 { print "dead"; next }
{
	t = at($1); mag = $5 + 0
	if (mag >= 5) print "error", $11, mag
	else if (mag >= 4) {
		if ($11 in last && t - last[$11] >= 720000) { swarm($11); delete lines[$11] }
		if (!($11 in lines)) { began[$11] = t; worst[$11] = mag; lines[$11] = 0 }
		last[$11] = t; lines[$11]++
		if (mag > worst[$11]) worst[$11] = mag
	}
	for (hop = int(t / 2160000) - 3; hop <= int(t / 2160000); hop++) {
		n[hop]++
		if (!(hop in max) || mag > max[hop]) max[hop] = mag
		if (!((hop, $11) in network)) { network[hop, $11]; networks[hop]++ }
		if (!((hop, $6) in kind)) { kind[hop, $6]; kinds[hop]++ }
	}
}
END {
	for (k in lines) swarm(k)
	for (hop in n) print "load", hop, n[hop], networks[hop], kinds[hop], max[hop]
}
