package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff" //nolint:depguard // it is nowhere else
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// latest returns the latest release before a version, which is no prerelease; "" if there is none.
func latest(ctx context.Context, dir, version string) (string, error) {
	tags, err := git(ctx, dir, "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	last := ""
	for t := range strings.FieldsSeq(tags) {
		if semver.IsValid(t) && semver.Prerelease(t) == "" && semver.Compare(t, version) < 0 && semver.Compare(t, last) > 0 {
			last = t
		}
	}
	return last, nil
}

// mayBreak reports whether programs may break by a step from one version to another: by a minor version, before v1.
func mayBreak(from, to string) bool {
	return semver.Major(to) == "v0" && semver.MajorMinor(from) != semver.MajorMinor(to)
}

// compare returns what the exported API of the released modules has otherwise than at the tag, each change as a line:
// those that break programs, and the others. dir is the repository that has the tag.
func (r *repository) compare(ctx context.Context, dir, tag string) (breaking, others []string, err error) {
	temp, err := os.MkdirTemp("", "api")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree := filepath.Join(temp, "tree")
	if _, err := git(ctx, dir, "clone", "--quiet", "--shared", "--branch", tag, dir, tree); err != nil {
		return nil, nil, err
	}
	was, err := openRepository(tree)
	if err != nil {
		return nil, nil, err
	}
	before, err := was.api(ctx, filepath.Join(temp, "before.work"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", tag, err)
	}
	after, err := r.api(ctx, filepath.Join(temp, "after.work"))
	if err != nil {
		return nil, nil, err
	}
	for _, m := range was.released {
		now, ok := after[m.path]
		if !ok {
			breaking = append(breaking, m.path+" is not released any more")
			continue
		}
		for _, c := range apidiff.ModuleChanges(before[m.path], now).Changes {
			if line := m.path + ": " + c.Message; c.Compatible {
				others = append(others, line)
			} else {
				breaking = append(breaking, line)
			}
		}
	}
	return breaking, others, nil
}

// api returns the packages of each released module that users import. The modules are those of the checkout, by a workspace
// file of that name.
func (r *repository) api(ctx context.Context, workspace string) (map[string]*apidiff.Module, error) {
	version, uses := "1.26.0", new(strings.Builder)
	var paths []string
	for _, m := range r.released {
		version = slices.MaxFunc([]string{version, m.file.Go.Version}, func(a, b string) int { return semver.Compare("v"+a, "v"+b) })
		fmt.Fprintf(uses, "use %q\n", r.folder(m))
		libraries, _, err := r.packages(m)
		if err != nil {
			return nil, err
		}
		for _, l := range libraries {
			paths = append(paths, l.path)
		}
	}
	if err := os.WriteFile(workspace, fmt.Appendf(nil, "go %s\n%s", version, uses), 0o600); err != nil {
		return nil, err
	}
	found, err := packages.Load(&packages.Config{
		Context: ctx, Dir: r.dir, Mode: packages.LoadTypes | packages.NeedModule,
		Env: append(os.Environ(), "GOWORK="+workspace, "GOFLAGS=", "GOSUMDB=off", "GOTOOLCHAIN=local"),
	}, paths...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*apidiff.Module)
	for _, m := range r.released {
		all[m.path] = &apidiff.Module{Path: m.path}
	}
	for _, p := range found {
		for _, e := range p.Errors {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.PkgPath, e))
		}
		if p.Module != nil {
			m := all[p.Module.Path]
			m.Packages = append(m.Packages, p.Types)
		}
	}
	for _, m := range all {
		slices.SortFunc(m.Packages, func(a, b *types.Package) int { return cmp.Compare(a.Path(), b.Path()) })
	}
	return all, err
}
