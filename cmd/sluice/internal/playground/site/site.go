// Package site has the files of the playground's page. The page that sluice simulate writes has the same charts.
package site

import "embed"

// Files are the files.
//
//go:embed *.css *.html *.js *.svg
var Files embed.FS
