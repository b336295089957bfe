package compat_test

import _ "golang.org/x/time/rate"
