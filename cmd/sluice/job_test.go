//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// job is a program for the tests to run: job WORD... does one thing after the other.
//
//	echo=TEXT err=TEXT    prints a line
//	print=TEXT            prints no end of a line
//	sleep=TIME            waits
//	exit=N                ends with a status
//	kill=N                ends by a signal
//	deaf                  ignores SIGTERM
//	child=WORDS           starts a job of its own and continues; words are separated by +
//	touch=FILE            makes a file
//	fill=N                prints N bytes in lines of 100, in one write
//	fails=N:FILE          fails the first N times, counting in FILE
func job() {
	for _, word := range os.Args[1:] {
		verb, rest, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(rest)
		switch verb {
		case "echo":
			fmt.Println(rest)
		case "err":
			fmt.Fprintln(os.Stderr, rest)
		case "print":
			fmt.Print(rest)
		case "sleep":
			d, err := time.ParseDuration(rest)
			check(err)
			<-time.NewTimer(d).C
		case "exit":
			os.Exit(n)
		case "kill":
			check(syscall.Kill(os.Getpid(), syscall.Signal(n)))
			select {}
		case "deaf":
			signal.Ignore(syscall.SIGTERM)
		case "child":
			c := exec.Command(os.Args[0], strings.Split(rest, "+")...)
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			check(c.Start())
		case "touch":
			check(os.WriteFile(rest, nil, 0o666))
		case "fill":
			fmt.Print(strings.Repeat(strings.Repeat("x", 99)+"\n", n/100))
		case "fails":
			count, file, _ := strings.Cut(rest, ":")
			before, _ := os.ReadFile(file)
			check(os.WriteFile(file, append(before, '.'), 0o666))
			if n, _ = strconv.Atoi(count); len(before) < n {
				fmt.Println("fails")
				os.Exit(1)
			}
		default:
			fmt.Fprintf(os.Stderr, "job: what is %q?\n", word)
			os.Exit(2)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "job:", err)
		os.Exit(3)
	}
}
