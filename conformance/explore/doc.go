// Package explore tries an election in every order of steps.
package explore
