package show

import "slices"

var sparks = []rune("▁▂▃▄▅▆▇█")

// Spark draws numbers that are not below 0, a column each, the highest full: what is above 0 is higher than what is 0.
func Spark(numbers []int64) string {
	if len(numbers) == 0 {
		return ""
	}
	top := max(1, slices.Max(numbers))
	line := make([]rune, len(numbers))
	for i, n := range numbers {
		line[i] = sparks[(n*int64(len(sparks)-1)+top-1)/top]
	}
	return string(line)
}
