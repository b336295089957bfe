//go:build !unix

package rlslimit_test

import "os"

// There is no redis-server on other systems, so no test gets here.
var sigStop, sigCont = os.Kill, os.Kill
