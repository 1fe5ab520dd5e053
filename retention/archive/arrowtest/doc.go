// Package arrowtest reads segments of an archive by Apache Arrow's reader of Parquet, which shares no code with the one that wrote them. A
// module of its own, so that Arrow is nobody else's dependency.
package arrowtest
