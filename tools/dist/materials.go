package main

import (
	"bytes"
	"debug/buildinfo"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// materials writes the bill of materials of a program: the modules that the go command has recorded in it. It has neither a
// serial number nor a time, which would differ from build to build.
func (r *release) materials(s system, program file) error {
	info, err := buildinfo.Read(bytes.NewReader(program.data))
	if err != nil {
		return err
	}
	main := component(cyclonedx.ComponentTypeApplication, info.Main.Path, info.Main.Version)
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	needs := []string{parts[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
		parts, needs = append(parts, c), append(needs, c.BOMRef)
	}
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Component: &main}
	bill.Components = &parts
	bill.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	var text bytes.Buffer
	// What reads it may be a few years old.
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cyclonedx.SpecVersion1_5); err != nil {
		return err
	}
	return r.write(r.archiveName(s)+".cdx.json", text.Bytes())
}

func component(kind cyclonedx.ComponentType, name, version string) cyclonedx.Component {
	url := "pkg:golang/" + name + "@" + version
	return cyclonedx.Component{Type: kind, BOMRef: url, Name: name, Version: version, PackageURL: url}
}
