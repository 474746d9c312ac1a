// Fastleader is to come.
package main

func main() {}
