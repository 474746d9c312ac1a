// Package compare lets candidates elect leaders, by several strategies, in several numbers
// and on several services, and measures what it costs.
package compare
