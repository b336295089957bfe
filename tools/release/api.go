package main

import (
	"context"
	"errors"
	"fmt"
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
// those that break programs, and the others.
func (r *repository) compare(ctx context.Context, tag string) (breaking, others []string, err error) {
	temp, err := os.MkdirTemp("", "api")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	// The commit before the tag's has the replaces, and builds where the version is not to be downloaded.
	was, err := r.before(ctx, tag, temp)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range was.released {
		i := r.place(m.path)
		if i < 0 {
			breaking = append(breaking, m.path+" is not released any more")
			continue
		}
		before, err := was.api(ctx, m)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", tag, err)
		}
		after, err := r.api(ctx, r.released[i])
		if err != nil {
			return nil, nil, err
		}
		for _, c := range apidiff.ModuleChanges(before, after).Changes {
			if line := m.path + ": " + c.Message; c.Compatible {
				others = append(others, line)
			} else {
				breaking = append(breaking, line)
			}
		}
	}
	slices.Sort(breaking)
	slices.Sort(others)
	return breaking, others, nil
}

// before writes the files of the commit before the tag's into dir. A clone would not do: git refuses to clone a checkout that
// belongs to somebody else, whatever safe.directory of the environment says.
func (r *repository) before(ctx context.Context, tag, dir string) (*repository, error) {
	files := filepath.Join(dir, "files")
	env := append(gitEnv(), "GIT_INDEX_FILE="+filepath.Join(dir, "index"))
	if _, err := command(ctx, r.dir, env, "git", "read-tree", tag+"^"); err != nil {
		return nil, err
	}
	if _, err := command(ctx, r.dir, env, "git", "checkout-index", "--all", "--prefix="+files+"/"); err != nil {
		return nil, err
	}
	return openRepository(files)
}

// api returns the packages of the module that users import.
func (r *repository) api(ctx context.Context, m *module) (*apidiff.Module, error) {
	libraries, _, err := r.packages(m)
	if err != nil {
		return nil, err
	}
	all := &apidiff.Module{Path: m.path}
	if len(libraries) == 0 {
		return all, nil
	}
	var paths []string
	for _, l := range libraries {
		paths = append(paths, l.path)
	}
	found, err := packages.Load(&packages.Config{
		Context: ctx, Dir: r.folder(m), Mode: packages.LoadTypes,
		Env: append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly"),
	}, paths...)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		for _, e := range p.Errors {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.PkgPath, e))
		}
		all.Packages = append(all.Packages, p.Types)
	}
	return all, err
}
