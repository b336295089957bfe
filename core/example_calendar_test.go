package core_test

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/sluice-go/sluice/core"
)

func ExampleDaily() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, time.March, 29, 12, 0, 0, 0, berlin)
	start, end := core.Daily(berlin).Bounds(noon)
	fmt.Println(end.Sub(start), "on the day on which summer time begins")
	// Output:
	// 23h0m0s on the day on which summer time begins
}

func ExampleWeekly() {
	start, _ := core.Weekly(time.Sunday, nil).Bounds(time.Date(2026, time.March, 27, 12, 0, 0, 0, time.UTC))
	fmt.Println(start.Format(time.DateOnly), start.Weekday())
	// Output:
	// 2026-03-22 Sunday
}

func ExampleMonthly() {
	billing := core.Monthly(31, nil) // in February from the last day
	start, end := billing.Bounds(time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(start.Format(time.DateOnly), end.Format(time.DateOnly))
	// Output:
	// 2027-02-28 2027-03-31
}

func ExampleYearly() {
	start, end := core.Yearly(time.UTC).Bounds(time.Date(2028, time.July, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(end.Sub(start).Hours() / 24)
	// Output:
	// 366
}

func ExampleCalendar_Bounds() {
	samoa, err := time.LoadLocation("Pacific/Apia")
	if err != nil {
		fmt.Println(err)
		return
	}
	// On 30 December 2011 Samoa crossed the date line: the day did not exist.
	start, end := core.Daily(samoa).Bounds(time.Date(2011, time.December, 29, 12, 0, 0, 0, samoa))
	fmt.Println(start)
	fmt.Println(end)
	// Output:
	// 2011-12-29 00:00:00 -1000 -10
	// 2011-12-31 00:00:00 +1400 +14
}

func ExampleCalendar_String() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(core.Monthly(15, berlin))
	fmt.Println(core.Weekly(time.Sunday, nil))
	fmt.Println(core.Daily(nil))
	// Output:
	// month day 15 tz Europe/Berlin
	// week from sunday
	// day
}
