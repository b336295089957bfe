//go:build race

package main

// raceDetector is on: a simulation, which has one goroutine only, takes ten times as long.
const raceDetector = true
