#include "sim/run_report.h"

namespace skerry {

const char kRunReportStyle[] = R"(
:root { --f: #2f7fc1; --l: #1d3f66; --b: #d9822b; --o: #5b9a4c; --e: #9a5bb5; --a: #c2478f;
  --m0: #2f7fc1; --m1: #d9822b; --m2: #5b9a4c; --m3: #c2478f; --m4: #7a68c9; --m5: #1f9e9e;
  --m6: #b08a1e; --m7: #8a5a44; }
@media (prefers-color-scheme: dark) { :root { --f: #5aaeea; --l: #b9d8f5; --b: #f0a35e;
  --o: #86c578; --e: #c08fd8; --a: #ec83bd; --m0: #5aaeea; --m1: #f0a35e; --m2: #86c578;
  --m3: #ec83bd; --m4: #a99bf0; --m5: #55c8c8; --m6: #d8b75a; --m7: #c29480; } }
.gantt { display: flex; }
.gantt .names { flex: none; width: 118px; padding-top: 4px; font-size: 12px; line-height: 1.25; }
.gantt .names div { height: 40px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.gantt .names .muted { font-size: 11px; }
.gantt .scroll { flex: 1; min-width: 0; }
svg.bars { width: max(100%, 720px); }
svg.wide { min-width: 640px; }
svg.matrix { width: auto; max-width: none; }
.f { fill: var(--f); } .l { fill: var(--l); } .b { fill: var(--b); } .o { fill: var(--o); }
.e { fill: var(--e); } .a { fill: var(--a); } .x { fill: var(--ref); }
.ta { fill: var(--f); opacity: .5; } .tg { fill: var(--b); opacity: .5; } .td { fill: var(--e); }
.key.k-f::before { background: var(--f); } .key.k-l::before { background: var(--l); }
.key.k-b::before { background: var(--b); } .key.k-o::before { background: var(--o); }
.key.k-e::before { background: var(--e); } .key.k-a::before { background: var(--a); }
.key.k-x::before { background: var(--ref); }
.key.k-ta::before, .key.k-tg::before, .key.k-td::before { height: 4px; vertical-align: 3px; }
.key.k-ta::before { background: var(--f); opacity: .5; }
.key.k-tg::before { background: var(--b); opacity: .5; }
.key.k-td::before { background: var(--e); }
#by-mb:checked ~ .gantt .m0 { fill: var(--m0); } #by-mb:checked ~ .gantt .m1 { fill: var(--m1); }
#by-mb:checked ~ .gantt .m2 { fill: var(--m2); } #by-mb:checked ~ .gantt .m3 { fill: var(--m3); }
#by-mb:checked ~ .gantt .m4 { fill: var(--m4); } #by-mb:checked ~ .gantt .m5 { fill: var(--m5); }
#by-mb:checked ~ .gantt .m6 { fill: var(--m6); } #by-mb:checked ~ .gantt .m7 { fill: var(--m7); }
#by-mb:checked ~ .gantt .b { opacity: .62; }
#with-tr:not(:checked) ~ .gantt .transfers { display: none; }
label { margin: 0 14px 0 4px; font-size: 13px; }
.zoom button { font: inherit; font-size: 13px; min-width: 34px; padding: 3px 9px;
  margin: 0 4px 8px 0; border: 1px solid var(--edge); border-radius: 6px;
  background: var(--page); color: var(--text); }
.stageline { stroke: var(--muted); stroke-width: .7; opacity: .6; }
.name { fill: var(--text); font-size: 12.5px; }
.up { fill: var(--f); } .down { fill: var(--b); }
.key.up::before { background: var(--f); } .key.down::before { background: var(--b); }
.cell { fill: rgb(var(--heat) / var(--strength)); stroke: var(--edge); stroke-width: .5; }
ul { margin: 4px 0; padding-left: 22px; }
)";

const char kRunReportScript[] = R"(<script>
document.querySelectorAll('.zoom button').forEach(button => button.onclick = () => {
  const box = button.closest('section').querySelector('.gantt .scroll');
  const svg = box.firstElementChild, factor = +button.dataset.zoom;
  const middle = (box.scrollLeft + box.clientWidth / 2) / svg.clientWidth;
  const width = Math.max(svg.clientWidth * factor, box.clientWidth);
  svg.style.width = factor ? Math.min(width, 60000) + 'px' : '';
  box.scrollLeft = middle * svg.clientWidth - box.clientWidth / 2;
});
</script>)";

}  // namespace skerry
