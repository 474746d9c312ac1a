// Package agent has the socket of an agent of this host, at which package lastwill serves.
package agent
